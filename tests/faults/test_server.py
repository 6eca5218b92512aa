"""Runs against a real server that fails, or is failed: afterwards every point once, every file whole, the right status.

These faults stand for their kinds; `make server-faults` does all of them and writes docs/server-faults.md.
"""

from pathlib import Path

import pytest

from tests.faults.server_accounts import account
from tests.faults.server_faults import FAULTS, Scene
from tests.server.stack import Stack, User, stack

__all__ = ["stack"]

HERE = [
    "server killed in the phase timed",
    "server killed while it is sent to",
    "database restarted while it is sent to",
    "storage fails half-way through a file",
    "network gone for the whole run",
    "controller killed while it sends",
    "sync from two machines at once",
    "proxy answers 503 to every third request",
]


@pytest.fixture(scope="session")
def user(stack: Stack) -> User:
    return stack.new_user()


@pytest.mark.parametrize("name", HERE)
def test_nothing_is_lost_and_nothing_is_twice(stack: Stack, user: User, tmp_path: Path, name: str) -> None:
    scene = Scene(stack, user, tmp_path)
    FAULTS[name](scene)
    found = account(scene.runs, user)
    assert found.clean, found
