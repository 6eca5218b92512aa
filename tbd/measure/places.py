"""Which operator, layer and phase of the step each event of a trace is of, where the trace tells.

An event may say so itself (args: op, layer, phase). PyTorch's profiler has marks instead, events that enclose others in
time ("tbd forward", "tbd layer NAME"), and numbers that tie things together: a kernel's `correlation` is that of the
driver's call that launched it, its `External id` that of the operator; an operator of the backward pass bears the
`Sequence number` of the one whose gradient it works out. What an operator calls is of its layer.
"""

import bisect
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

PHASES = ("forward", "backward", "update")
MARK, LAYER = "tbd ", "tbd layer "


class Place(NamedTuple):
    operator: str = ""
    layer: str = ""
    phase: str = ""


class Fact(NamedTuple):
    """What of an event decides its place. `ties`: the numbers above, None where it has none."""

    host: bool
    operator: bool  # on the host: an operator, not a call of the driver
    name: str
    begin: float
    end: float
    lane: tuple[str, str]
    own: Place
    correlation: int | None
    external: int | None
    sequence: int | None


class Marks:
    """Enclosing marks [(begin, end, text)] that nest."""

    def __init__(self, marks: Iterable[tuple[float, float, str]]):
        self.marks = sorted(marks, key=lambda mark: (mark[0], -mark[1]))
        self.begins = [begin for begin, _, _ in self.marks]
        self.around: list[int] = []  # the mark around each, -1 for none
        stack: list[int] = []
        for number, (begin, _, _) in enumerate(self.marks):
            while stack and self.marks[stack[-1]][1] <= begin:
                stack.pop()
            self.around.append(stack[-1] if stack else -1)
            stack.append(number)

    def at(self, t: float) -> str:
        """The text of the innermost mark at that time; "" for none."""
        number = bisect.bisect_right(self.begins, t) - 1
        while number >= 0 and self.marks[number][1] <= t:
            number = self.around[number]
        return self.marks[number][2] if number >= 0 else ""


def inherit(facts: Sequence[Fact], found: list[Place]) -> None:
    """Give operators without a layer that of the operator which called them: the innermost around them that has one."""
    lanes = defaultdict(list)
    for index, fact in enumerate(facts):
        if fact.operator:
            lanes[fact.lane].append(index)
    for numbers in lanes.values():
        numbers.sort(key=lambda n: (facts[n].begin, -facts[n].end))
        stack: list[int] = []
        for number in numbers:
            while stack and facts[stack[-1]].end <= facts[number].begin:
                stack.pop()
            if stack and not found[number].layer:
                found[number] = found[number]._replace(layer=found[stack[-1]].layer)
            stack.append(number)


def tie(args: dict[str, Any], name: str) -> int | None:
    value = args.get(name)
    return value if isinstance(value, int) and value > 0 else None


def places(facts: Sequence[Fact], marks: Sequence[tuple[float, float, str, tuple[str, str]]]) -> list[Place]:
    """The Place of each event; `marks` are [(begin, end, name, lane)]."""
    phases = Marks((b, e, n[len(MARK) :]) for b, e, n, _ in marks if n[len(MARK) :] in PHASES)
    by_lane = defaultdict(list)
    for begin, end, name, lane in marks:
        if name.startswith(LAYER):
            by_lane[lane].append((begin, end, name[len(LAYER) :]))
    layers = {lane: Marks(found) for lane, found in by_lane.items()}

    found: list[Place] = []
    of_sequence: dict[int, str] = {}
    for fact in facts:
        layer = fact.own.layer or (layers[fact.lane].at(fact.begin) if fact.host and fact.lane in layers else "")
        phase = fact.own.phase or (phases.at(fact.begin) if fact.host else "")
        found.append(Place(fact.own.operator or (fact.name if fact.operator else ""), layer, phase))
        if layer and fact.sequence is not None:
            of_sequence.setdefault(fact.sequence, layer)
    for index, fact in enumerate(facts):
        # in the other phases it is only the number that comes next
        if not found[index].layer and found[index].phase == "backward" and fact.sequence in of_sequence:
            found[index] = found[index]._replace(layer=of_sequence[fact.sequence])
    inherit(facts, found)
    launches = {f.correlation: found[i] for i, f in enumerate(facts) if f.host and f.correlation is not None}
    operators = {f.external: found[i] for i, f in enumerate(facts) if f.operator and f.external is not None}
    for index, fact in enumerate(facts):
        if not fact.host:
            by = operators.get(fact.external, Place()) if fact.external is not None else Place()
            launch = launches.get(fact.correlation, Place()) if fact.correlation is not None else Place()
            own = found[index]
            found[index] = Place(
                own.operator or by.operator, own.layer or by.layer, own.phase or by.phase or launch.phase
            )
    return found
