"""The variables by which a scheduler that started this command several times tells each its place.

torchrun and Kubernetes' operators set RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT and, where there are several
processes on a node, LOCAL_RANK and LOCAL_WORLD_SIZE (pytorch.org/docs/stable/elastic/run.html, "Environment
Variables"); srun sets SLURM_PROCID and SLURM_STEP_NUM_TASKS (srun(1), "OUTPUT ENVIRONMENT VARIABLES").
"""

import os
from collections.abc import Mapping
from typing import NamedTuple

LONGEST_PORT = 65535


class BadVariables(ValueError):
    """A variable is missing, or impossible. The message names it."""


class Place(NamedTuple):
    """Where this process stands among those that the scheduler started: on each node `local_processes` of them.

    `address`, `port`: where node 0 can be reached by the other nodes.
    """

    rank: int
    processes: int
    local_rank: int
    local_processes: int
    address: str
    port: int

    @property
    def node(self) -> int:
        return self.rank // self.local_processes

    @property
    def nodes(self) -> int:
        return self.processes // self.local_processes


def place(source: Mapping[str, str] = os.environ) -> Place | None:
    """The place that RANK, WORLD_SIZE and so on give this process; None where it was not started so, or is the only
    one. Raises BadVariables."""
    if "RANK" not in source or "WORLD_SIZE" not in source:
        return None
    rank, processes = number(source, "RANK"), number(source, "WORLD_SIZE", 1)
    if processes == 1:
        return None
    local = number(source, "LOCAL_WORLD_SIZE", 1) if "LOCAL_WORLD_SIZE" in source else 1
    local_rank = number(source, "LOCAL_RANK") if "LOCAL_RANK" in source else rank % local
    if rank >= processes or processes % local or local_rank != rank % local:
        raise BadVariables(
            f"RANK={rank}, WORLD_SIZE={processes}, LOCAL_RANK={local_rank}, LOCAL_WORLD_SIZE={local}: these can't be "
            "nodes with as many processes each, numbered one after the other"
        )
    for name in ("MASTER_ADDR", "MASTER_PORT"):
        if not source.get(name):
            raise BadVariables(f"RANK and WORLD_SIZE are set, and {name} is not: where is rank 0 to be reached?")
    port = number(source, "MASTER_PORT", 1)
    # torchrun's own agent listens at that port itself, and says so (torch/distributed/elastic/agent/server/
    # local_elastic_agent.py); every node knows the next one as well
    port += source.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    if port > LONGEST_PORT:
        raise BadVariables(f"MASTER_PORT={source['MASTER_PORT']}: there is no port {port}")
    return Place(rank, processes, local_rank, local, source["MASTER_ADDR"], port)


def number(source: Mapping[str, str], name: str, least: int = 0) -> int:
    text = source[name]
    if not text.isdecimal() or int(text) < least:
        raise BadVariables(f"{name}={text} is no whole number of at least {least}")
    return int(text)


def later_task(source: Mapping[str, str] = os.environ) -> int | None:
    """The number of this task of an srun step, where the step has several and this is not its first; else None."""
    if "SLURM_STEP_ID" not in source or int(source.get("SLURM_STEP_NUM_TASKS", "1")) == 1:
        return None
    return int(source.get("SLURM_PROCID", "0")) or None
