"""The other runs of a run's sweep, for figures that compare with them."""

from pathlib import Path
from typing import Any

from tbd.measure.events import Absent
from tbd.measure.jsonl import read_object

# What may differ between a run on several devices and the one on a single device that it is held against: how many
# there are, and what a rank is told of the others. All else, the threads of a device too, must be the same.
OWN = ("spool_id", "output", "rank", "world_size", "go", "batch_size_global")
OWN_HARDWARE = ("name", "devices", "nodes", "engine", "port", "slurm")


def single_throughput(spool: Path, request: dict[str, Any]) -> float:
    """The throughput of the run on one device, in the sweep of the run in `spool`, that is the same in all else.

    Raises Absent with the reason where there is none.
    """
    sweep = read_object(spool / "run.json").get("parent_spool_id")
    if not sweep:
        raise Absent("it needs the run on a single device in the same sweep: -m hardware.devices=1,2")
    wanted, differs = _compared(request), set()
    for file in sorted(spool.parent.glob("*/run.json")):
        if file.parent == spool or read_object(file).get("parent_spool_id") != sweep:
            continue
        other = read_object(file.parent / "request.json")
        if other.get("world_size") != 1:
            continue
        found = _compared(other)
        differs = {key for key in wanted.keys() | found.keys() if wanted.get(key) != found.get(key)}
        if not differs:
            rate = read_object(file.parent / "figures.json").get("metrics", {}).get("throughput")
            if isinstance(rate, int | float):
                return float(rate)
            raise Absent("the sweep's run on a single device has no throughput")
    if differs:
        raise Absent(f"the sweep's run on a single device differs in {', '.join(sorted(differs))} too")
    raise Absent("the sweep has no run on a single device, or it has not ended yet")


def _compared(request: dict[str, Any]) -> dict[str, Any]:
    """What must be the same, {dotted key: value}."""
    found = {key: value for key, value in request.items() if key not in (*OWN, "hardware")}
    hardware = request.get("hardware")
    if isinstance(hardware, dict):
        found.update({f"hardware.{key}": value for key, value in hardware.items() if key not in OWN_HARDWARE})
    return found
