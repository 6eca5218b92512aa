"""Where the phases of a recorded step begin and end, of operations that don't keep quite to them."""

ORDER = ("forward", "backward", "update")


def bounds(found):
    """{phase: [begin, end]} on the order axis of docs/memory.md, on which the operations are 1, 2, ...

    `found` is each operation's phase in the order in which they ran, None where it is not known. A few of a later phase
    (shapes, zeros) run early: the bounds are where the fewest lie in the wrong phase.
    """
    numbers = [None if phase is None else ORDER.index(phase) for phase in found]
    edges = [1, boundary(numbers, 1), boundary(numbers, 2), len(numbers) + 1]
    return {name: [edges[n], edges[n + 1]] for n, name in enumerate(ORDER)}


def boundary(numbers, later):
    """The order at which the phases numbered `later` and above begin."""
    place = 1
    misplaced = best = sum(1 for n in numbers if n is not None and n < later)
    for order, n in enumerate(numbers, 1):
        if n is not None:
            misplaced += 1 if n >= later else -1
        if misplaced < best:
            best, place = misplaced, order + 1
    return place
