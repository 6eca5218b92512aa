"""From the command to the first timed step: where the time before the window went."""

from tbd.measure.events import Absent, End, Log, Phase, Steady, Steps

WORKER_PHASES = ("import", "build", "data", "compile")


def phase_s(log: Log, name: str) -> float:
    """Seconds that the phase `name` took in all: until the next phase begins, or the process ends.

    Raises Absent where it never ran or did not finish.
    """
    phases = log.all(Phase)
    ends = [phase.t for phase in phases[1:]]
    end = log.last(End)
    if end is not None:
        ends.append(end.t)
    durations = [after - phase.t for phase, after in zip(phases, ends, strict=False) if phase.name == name]
    if len(durations) < sum(phase.name == name for phase in phases):
        raise Absent(f"the phase {name} did not finish")
    if not durations:
        raise Absent(f"the run had no phase {name}")
    if min(durations) < 0:
        raise Absent(f"the phase {name} ends before it begins: its events are damaged")
    return sum(durations)


def first_step_s(log: Log) -> float:
    """Seconds of the process's very first training step, compilation and autotuning included: from its phase's begin.

    It is a part of the phase in which it ran, mostly `compile`, and not to be added to that.
    """
    phases = {phase.name: phase.t for phase in log.all(Phase)}
    firsts = [steps for steps in log.all(Steps) if steps.first == 0 and len(steps) and steps.phase in phases]
    if not firsts:
        raise Absent("no step was done")
    first = min(firsts, key=lambda steps: float(steps.end[0]))
    return float(first.end[0] - phases[first.phase])


def warmup(logs: list[Log]) -> dict[str, float]:
    """warmup_steps: untimed steps until the window began, the most of any repeat.

    steady: 1 if the step time was steady by then in every repeat, 0 if not.
    """
    verdicts = [verdict for log in logs if (verdict := log.last(Steady)) is not None]
    if not verdicts:
        raise Absent("the warm-up did not finish")
    return {
        "warmup_steps": float(max(verdict.steps for verdict in verdicts)),
        "steady": float(all(verdict.steady for verdict in verdicts)),
    }
