"""Several ranks of one run: their logs as one, whose figures are the run's, and how they differ."""

from dataclasses import replace
from typing import Any

import numpy as np

from tbd.measure import events
from tbd.measure.events import Absent, Array, Log

# A rank whose own work takes more than this of the ranks' median is a straggler. Below it lies what neighbours on one
# machine differ by without any cause of their own.
STRAGGLES = 1.1


def offsets(logs: dict[int, Log], machines: dict[int, str]) -> dict[int, float]:
    """{rank: seconds to add to its times to have them on rank 0's clock}.

    As the ranks compared their clocks (event `clock`); ranks of one machine (`machines`: its boot id, "" where not
    known) share one. Raises Absent where nothing is known of a rank's clock.
    """
    found = {}
    for rank, log in logs.items():
        clock = log.last(events.Clock)
        if rank == 0 or (machines.get(rank) and machines[rank] == machines.get(0)):
            found[rank] = 0.0
        elif clock is not None:
            found[rank] = clock.offset_s
        else:
            raise Absent(f"rank {rank} is of another machine than rank 0, and compared no clocks with it")
    return found


def merged(logs: dict[int, Log], shift: dict[int, float], world_size: int) -> Log:
    """One pass of all ranks as one log: rank 0's, in which these records are the run's.

    Steps: a step ends when its last rank ended it; its items and FLOPs are the ranks' sums, its waits those of the rank
    that waited longest. Window: from the first rank's begin to the last one's end; CPU seconds and bytes sent are sums,
    the wait for emulators is the ranks' mean. Losses: the ranks' mean, since each is weighed by its share of the batch.
    Matrix products: as if one device did all of them at once. End: the first rank's that did not end well.

    What not all ranks have is left out. `shift` is what offsets() gives.
    """
    first = logs[min(logs)]
    result = Log(schema=first.schema, ranks=frozenset(str(rank) for rank in logs))
    phases = list(dict.fromkeys(chunk.phase for chunk in first.all(events.Steps)))
    whole = len(logs) == world_size
    replaced = events.Steps | events.StepEnds | events.Window | events.Losses | events.MatrixProduct | events.End
    result.records = [record for record in first.records if not isinstance(record, replaced)]
    result.records += [warned for rank, log in logs.items() if rank for warned in log.all(events.Warned)]
    if whole:
        found = [*(_steps(logs, phase, shift) for phase in phases), _window(logs, shift)]
        result.records += [record for record in found if record is not None]
        result.records += [*_losses(logs), *_products(logs)]
    end = _end(logs)
    if end is not None and (whole or end.status != "ok"):
        result.records.append(end)
    return result


def _steps(logs: dict[int, Log], phase: str, shift: dict[int, float]) -> events.Steps | None:
    found = {rank: steps for rank, log in logs.items() if (steps := log.steps(phase)) is not None}
    if len(found) < len(logs):
        return None
    count = min(len(steps) for steps in found.values())
    units = [unit for unit in found[0].items if all(unit in steps.items for steps in found.values())]

    def column(name: str) -> list[Array] | None:
        columns = [getattr(steps, name) for steps in found.values()]
        return None if any(values is None for values in columns) else [values[:count] for values in columns]

    flops, waits = column("flops"), column("data_wait_s")
    return events.Steps(
        phase=phase,
        first=0,
        end=np.max([steps.end[:count] + shift[rank] for rank, steps in found.items()], axis=0),
        items={unit: np.sum([steps.items[unit][:count] for steps in found.values()], axis=0) for unit in units},
        flops=None if flops is None else np.sum(flops, axis=0),
        data_wait_s=None if waits is None else np.max(waits, axis=0),
    )


def _window(logs: dict[int, Log], shift: dict[int, float]) -> events.Window | None:
    found = {rank: window for rank, log in logs.items() if (window := log.last(events.Window)) is not None}
    if len(found) < len(logs) or len({window.steps for window in found.values()}) != 1:
        return None

    def total(name: str) -> float | None:
        values = [getattr(window, name) for window in found.values()]
        return None if any(value is None for value in values) else float(sum(values))

    waited = total("emulator_s")
    return events.Window(
        begin=min(window.begin + shift[rank] for rank, window in found.items()),
        end=max(window.end + shift[rank] for rank, window in found.items()),
        steps=found[0].steps,
        cpu_s=total("cpu_s"),
        emulator_s=None if waited is None else waited / len(found),
        sent_bytes=total("sent_bytes"),
    )


def _losses(logs: dict[int, Log]) -> list[events.Losses]:
    """Each reading that all ranks made of the same steps."""
    means = []
    for readings in zip(*(log.all(events.Losses) for log in logs.values()), strict=False):
        if len({(reading.phase, reading.first, len(reading.values)) for reading in readings}) != 1:
            break
        means.append(replace(readings[0], values=np.mean([reading.values for reading in readings], axis=0)))
    return means


def _products(logs: dict[int, Log]) -> list[events.MatrixProduct]:
    """Each product that all ranks timed, in the time that the sum of their best rates would take for it."""
    together = []
    for products in zip(*(log.all(events.MatrixProduct) for log in logs.values()), strict=False):
        best = [float(product.seconds.min()) if len(product.seconds) else 0.0 for product in products]
        if len({(product.size, product.precision) for product in products}) == 1 and min(best) > 0:
            seconds = 1 / sum(1 / time for time in best)
            together.append(replace(products[0], seconds=np.array([seconds])))
    return together


def _end(logs: dict[int, Log]) -> events.End | None:
    """The end of the pass; None while a rank has none and no other failed. Of those that failed, one that did not only
    lose the others, then the first."""
    ends = {rank: end for rank, log in logs.items() if (end := log.last(events.End)) is not None}
    failed = [(end.status == "lost_node", end.t, rank) for rank, end in ends.items() if end.status != "ok"]
    if failed:
        rank = min(failed)[2]
        return replace(ends[rank], cause=f"rank {rank}: {ends[rank].cause}")
    return next(iter(ends.values())) if len(ends) == len(logs) else None


def own_times_s(steps: events.Steps, begin: float) -> Array:
    """Seconds a step of one rank's own work: without what it stood still for the others, where that is known."""
    times = np.diff(steps.end, prepend=begin)
    return times if steps.exchange_wait_s is None else times - steps.exchange_wait_s


def table(found: dict[int, tuple[events.Window, events.Steps]], clocks: dict[int, Log]) -> list[dict[str, Any]]:
    """A row a rank: its clock's offset, its steps, and whether its own work makes the others wait.

    `own_ms_p50`: the median of own_times_s(). `straggler`: it is more than STRAGGLES times the ranks' median.
    """
    own = {rank: float(np.median(own_times_s(steps, window.begin))) for rank, (window, steps) in found.items()}
    usual = float(np.median(list(own.values())))
    rows = []
    for rank, (window, steps) in found.items():
        clock = clocks[rank].last(events.Clock)
        rows.append(
            {
                "rank": rank,
                "step_time_p50_ms": float(np.median(np.diff(steps.end, prepend=window.begin))) * 1e3,
                "own_ms_p50": own[rank] * 1e3,
                "exchange_wait_share": _share(steps.exchange_wait_s, window.seconds),
                "straggler": own[rank] > STRAGGLES * usual,
                "clock_offset_ms": clock.offset_s * 1e3 if clock else None,
                "clock_error_ms": clock.error_s * 1e3 if clock else None,
            }
        )
    return rows


def _share(values: Array | None, seconds: float) -> float | None:
    return None if values is None else float(values.sum() / seconds)


def stragglers(rows: list[dict[str, Any]]) -> str | None:
    """What to tell of the ranks that the others waited for; None where there are none."""
    slow = [row for row in rows if row["straggler"]]
    if not slow:
        return None
    usual = float(np.median([row["own_ms_p50"] for row in rows]))
    named = ", ".join(f"rank {row['rank']} ({row['own_ms_p50']:.1f} ms of its own a step)" for row in slow)
    return f"stragglers: {named}, where the ranks' median is {usual:.1f} ms"


def communication_share(found: list[events.Steps], seconds: float) -> float:
    """Mean over the ranks of the time that their steps stood still for an exchange / window."""
    return float(np.mean([_known(steps.exchange_wait_s).sum() for steps in found]) / seconds)


def exchange_ms(found: list[events.Steps]) -> float:
    """The median over steps and ranks of the time in which any exchange was under way, in ms."""
    return float(np.median(np.concatenate([_known(steps.exchange_s) for steps in found])) * 1e3)


def overlap_share(found: list[events.Steps]) -> float:
    """1 - sum(time stood still for an exchange) / sum(time in which one was under way), over all ranks: how much of the
    exchange went on beside computation."""
    under_way = sum(float(_known(steps.exchange_s).sum()) for steps in found)
    if under_way <= 0:
        raise Absent("no exchange took any time")
    stood = sum(float(_known(steps.exchange_wait_s).sum()) for steps in found)
    return max(0.0, 1 - stood / under_way)


def _known(values: Array | None) -> Array:
    if values is None:
        raise Absent("the framework does not tell when its ranks exchange gradients")
    return values


def sent_mb_per_step(window: events.Window, ranks: int) -> float:
    """Bytes that a rank sent over TCP in the window, the ranks' mean, / steps, in 10^6 bytes."""
    if window.sent_bytes is None:
        raise Absent("the worker did not count what it sent")
    if window.sent_bytes == 0:
        raise Absent("nothing went over TCP: the ranks exchange by shared memory, NVLink or the like")
    return window.sent_bytes / ranks / window.steps / 1e6


def ring_mb_per_step(exchanged_bytes: float | None, ranks: int) -> float:
    """2 (n - 1) / n of the gradients' bytes, in 10^6: what each of n ranks must send at least to have the sum of all
    (Patarasuk and Yuan 2009, J. Parallel Distrib. Comput. 69(2), theorem 1)."""
    if not exchanged_bytes:
        raise Absent("the worker told no size of its gradients")
    return 2 * (ranks - 1) / ranks * exchanged_bytes / 1e6


def scaling_efficiency(rate: float, ranks: int, single: float) -> float:
    """Throughput / (number of devices x the throughput of one)."""
    if not single > 0:
        raise Absent("the single device has no throughput")
    return rate / (ranks * single)
