from collections.abc import Callable

import pytest

from tbd.config import compose
from tbd.config.plan import Plan, plan


@pytest.fixture
def plan_of() -> Callable[..., Plan]:
    """A function from overrides to the one Plan that they ask for: plan_of("model=resnet50", "seed=2")."""

    def plan_of(*overrides: str) -> Plan:
        (config,) = compose.compose_jobs(list(overrides), multirun=False)
        return plan(config)

    return plan_of
