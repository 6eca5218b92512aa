"""What starts the nodes of a run of several ranks: this machine's processes, Slurm, or who started this command.

A node is a machine, or stands for one; on each an agent (tbd/agent.py) starts the ranks. The choice is never silent: it
is told at the terminal and in the run's tags.
"""

import os
import shutil
import subprocess
from collections.abc import Mapping
from typing import Any, NamedTuple

from tbd.launch import scheduler

AUTO, PROCESSES, SLURM, VARIABLES = "auto", "processes", "slurm", "variables"
NAMES = (AUTO, PROCESSES, SLURM, VARIABLES)
SLURM_OPTIONS = ("partition", "account", "time", "options", "prologue")


class Engine(NamedTuple):
    """`why`: for what reason it was taken, in the user's words."""

    name: str
    why: str


def choose(wanted: str, nodes: int, source: Mapping[str, str] = os.environ) -> Engine:
    """The engine for a run on so many nodes.

    `auto`: what started this command once for each rank or node (tbd/launch/scheduler.py), else an allocation of Slurm
    that this process is in, else for several nodes the Slurm of this machine where it answers, else processes. Raises
    BadVariables.
    """
    if wanted == PROCESSES:
        return Engine(PROCESSES, "asked for")
    if wanted in (AUTO, VARIABLES) and (place := scheduler.place(source)):
        return Engine(VARIABLES, f"RANK={place.rank} of WORLD_SIZE={place.processes}")
    if wanted == VARIABLES:
        raise scheduler.BadVariables(
            "hardware.engine=variables: RANK and WORLD_SIZE are not set, or say that there is one process"
        )
    if job := source.get("SLURM_JOB_ID"):
        return Engine(SLURM, f"within the allocation {job}")
    if wanted == SLURM:
        return Engine(SLURM, "asked for")
    if nodes > 1 and slurm_answers():
        return Engine(SLURM, "this machine has one")
    return Engine(PROCESSES, "no Slurm here" if nodes > 1 else "one node")


def slurm_answers() -> bool:
    """Whether this machine has Slurm's commands and a controller that answers them."""
    if not (shutil.which("srun") and shutil.which("sinfo")):
        return False
    try:
        return subprocess.run(["sinfo", "--noheader"], capture_output=True, timeout=10).returncode == 0
    except (OSError, subprocess.SubprocessError):
        return False


def srun(hardware: Mapping[str, Any], name: str, agent: list[str]) -> list[str]:
    """The command that runs `agent` once on each node through Slurm.

    One step of the allocation that this process is in, or else a job of its own: it ends as a whole as soon as one
    agent does badly, and srun stays until then.
    """
    slurm = hardware["slurm"]
    ranks = hardware["devices"]
    command = ["srun", f"--job-name={name}", f"--nodes={hardware['nodes']}", f"--ntasks={hardware['nodes']}"]
    if "SLURM_STEP_ID" in os.environ:
        command.append("--overlap")  # the step that this process is itself holds what it would wait for
    # a node may have to write a large trace after the others are done: bad ends are what ends all (srun(1), --wait)
    command += ["--ntasks-per-node=1", "--unbuffered", "--kill-on-bad-exit=1", "--wait=0", "--input=none"]
    if hardware["threads"] > 1 or ranks > 1:
        command.append(f"--cpus-per-task={hardware['threads'] * ranks}")
    if hardware["device"] == "gpu":
        command.append(f"--gpus-per-node={ranks}")
    command += [f"--{key}={slurm[key]}" for key in ("partition", "account", "time") if slurm.get(key)]
    command += [str(option) for option in slurm.get("options") or []]
    if slurm.get("prologue"):
        return [*command, "bash", "-c", f'{slurm["prologue"]}\nexec "$@"', "agent", *agent]
    return [*command, *agent]
