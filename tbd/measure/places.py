"""Which operator, layer and phase of the step each event of a trace is of, where the trace tells.

An event may say so itself (args: op, layer, phase). PyTorch's profiler has marks instead, events that enclose others in
time ("tbd forward", "tbd layer NAME"), and numbers that tie things together: a kernel's `correlation` is that of the
driver's call that launched it, its `External id` that of the operator; an operator of the backward pass bears the
`Sequence number` of the one whose gradient it works out. What an operator calls is of its layer.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tbd.measure.events import Array
from tbd.measure.work import Work

PHASES = ("forward", "backward", "update")
MARK, LAYER = "tbd ", "tbd layer "
Lane = tuple[str, str]
Mark = tuple[float, float, str, Lane]  # begin, end, name, lane


@dataclass
class Facts:
    """What of the events decides their places: columns, an entry an event, but for those in braces.

    `host`: not on a GPU; `operator`: on the host and not a call of the driver. `operators`, `layers`, `phases`: what an
    event says itself, "" where it doesn't; `place` fills them in. The ties above are {event: number}; `work` {operator:
    what it has to do}, where that is known.
    """

    names: list[str] = field(default_factory=list)
    begins: list[float] = field(default_factory=list)
    ends: list[float] = field(default_factory=list)
    lanes: list[Lane] = field(default_factory=list)
    host: list[bool] = field(default_factory=list)
    operator: list[bool] = field(default_factory=list)
    operators: list[str] = field(default_factory=list)
    layers: list[str] = field(default_factory=list)
    phases: list[str] = field(default_factory=list)
    correlation: dict[int, int] = field(default_factory=dict)
    external: dict[int, int] = field(default_factory=dict)
    sequence: dict[int, int] = field(default_factory=dict)
    work: dict[int, Work] = field(default_factory=dict)


class Marks:
    """Enclosing marks [(begin, end, text)] that nest."""

    def __init__(self, marks: Iterable[tuple[float, float, str]]):
        found = sorted(marks, key=lambda mark: (mark[0], -mark[1]))
        self.texts = [text for _, _, text in found] + [""]  # the last, number -1, is that of no mark
        self.begins = np.array([begin for begin, _, _ in found], dtype=np.float64)
        self.ends = np.array([end for _, end, _ in found] + [np.inf])
        self.around = np.full(len(found) + 1, -1)  # the mark around each, -1 for none
        stack: list[int] = []
        for number, (begin, _, _) in enumerate(found):
            while stack and self.ends[stack[-1]] <= begin:
                stack.pop()
            self.around[number] = stack[-1] if stack else -1
            stack.append(number)

    def at(self, times: Array) -> list[str]:
        """The text of the innermost mark at each time; "" for none."""
        numbers = np.searchsorted(self.begins, times, side="right") - 1
        while (over := self.ends[numbers] <= times).any():
            numbers[over] = self.around[numbers[over]]
        return [self.texts[number] for number in numbers.tolist()]


def place(facts: Facts, marks: list[Mark]) -> dict[int, int]:
    """Fill in operators, layers and phases; gives {event: the operator in `work` that it is a part of}.

    A part are the operator itself, what it calls, and on a GPU what these launch. Of operators within each other that
    all have known work the outermost has it.
    """
    _by_marks(facts, marks)
    of_sequence: dict[int, str] = {}
    for index, number in facts.sequence.items():
        if facts.layers[index]:
            of_sequence.setdefault(number, facts.layers[index])
    for index, number in facts.sequence.items():
        # in the other phases it is only the number that comes next
        if not facts.layers[index] and facts.phases[index] == "backward":
            facts.layers[index] = of_sequence.get(number, "")
    parts: dict[int, int] = {}
    for order in _by_lane(facts):
        _inherit(facts, order, parts)
    launches = {number: i for i, number in facts.correlation.items() if facts.host[i]}
    callers = {number: i for i, number in facts.external.items() if facts.operator[i]}
    for index, host in enumerate(facts.host):
        if host:
            continue
        by = callers.get(facts.external.get(index, 0))
        launch = launches.get(facts.correlation.get(index, 0))
        if by is not None:
            facts.operators[index] = facts.operators[index] or facts.operators[by]
            facts.layers[index] = facts.layers[index] or facts.layers[by]
            facts.phases[index] = facts.phases[index] or facts.phases[by]
            if by in parts:
                parts[index] = parts[by]
        if launch is not None:
            facts.phases[index] = facts.phases[index] or facts.phases[launch]
    return parts


def _by_marks(facts: Facts, marks: list[Mark]) -> None:
    """Phases and layers of what is on the host by the marks around it, and each operator's own name."""
    host = np.flatnonzero(facts.host)
    times = np.array(facts.begins, dtype=np.float64)[host]
    phases = Marks((b, e, n[len(MARK) :]) for b, e, n, _ in marks if n[len(MARK) :] in PHASES)
    for index, phase in zip(host.tolist(), phases.at(times), strict=True):
        facts.phases[index] = facts.phases[index] or phase
        if facts.operator[index]:
            facts.operators[index] = facts.operators[index] or facts.names[index]
    of_lane = defaultdict(list)
    for begin, end, name, lane in marks:
        if name.startswith(LAYER):
            of_lane[lane].append((begin, end, name[len(LAYER) :]))
    for lane, found in of_lane.items():
        within = np.array([i for i in host.tolist() if facts.lanes[i] == lane], dtype=np.int64)
        layers = Marks(found).at(np.array([facts.begins[i] for i in within.tolist()], dtype=np.float64))
        for index, layer in zip(within.tolist(), layers, strict=True):
            facts.layers[index] = facts.layers[index] or layer


def _by_lane(facts: Facts) -> Iterator[list[int]]:
    """The operators of each lane in the order in which they begin, callers before what they call."""
    lanes = defaultdict(list)
    for index, operator in enumerate(facts.operator):
        if operator:
            lanes[facts.lanes[index]].append(index)
    begins, ends = np.array(facts.begins, dtype=np.float64), np.array(facts.ends, dtype=np.float64)
    for found in lanes.values():
        numbers: NDArray[np.int64] = np.array(found, dtype=np.int64)
        yield numbers[np.lexsort((-ends[numbers], begins[numbers]))].tolist()


def _inherit(facts: Facts, order: list[int], parts: dict[int, int]) -> None:
    """Give what an operator calls its layer, where it has none of its own, and the work that it is a part of."""
    begins, ends, layers = facts.begins, facts.ends, facts.layers
    stack: list[int] = []
    for number in order:
        begin = begins[number]
        while stack and ends[stack[-1]] <= begin:
            stack.pop()
        if stack:
            caller = stack[-1]
            if not layers[number]:
                layers[number] = layers[caller]
            if caller in parts:
                parts[number] = parts[caller]
        if number not in parts and number in facts.work:
            parts[number] = number
        stack.append(number)
