"""Which end of many is the run's: the one that the others followed from."""

from pathlib import Path

import pytest

from tbd.launch.job import Follower, judge

LOST = "node 1 went away: its step ended"


@pytest.mark.parametrize(
    ("ranks", "nodes", "lost", "found"),
    [
        ([(0, "ok")], {0: "ok"}, None, ("ok", "")),
        ([(0, "lost_node"), (1, "crashed")], {0: "lost_node", 1: "crashed"}, None, ("crashed", "rank 1: crashed")),
        ([(1, "timed_out"), (0, "crashed")], {}, None, ("timed_out", "rank 1: timed_out")),
        ([], {0: "crashed"}, LOST, ("crashed", "node 0: crashed")),
        ([(1, "lost_node")], {0: "crashed", 1: "lost_node"}, None, ("crashed", "node 0: crashed")),
        ([(0, "lost_node")], {0: "lost_node"}, LOST, ("lost_node", LOST)),
        ([(0, "lost_node")], {0: "lost_node"}, None, ("lost_node", "rank 0: lost_node")),
        ([(0, "interrupted")], {0: "interrupted"}, LOST, ("lost_node", LOST)),
        ([(0, "interrupted")], {0: "interrupted"}, None, ("interrupted", "node 0: interrupted")),
    ],
)
def test_the_first_that_failed_by_itself_is_the_cause(
    tmp_path: Path, ranks: list[tuple[int, str]], nodes: dict[int, str], lost: str | None, found: tuple[str, str]
) -> None:
    follower = Follower(tmp_path, nodes=2, world_size=2)
    follower.rank_ends = [
        {"event": "rank_end", "rank": rank, "status": name, "cause": name, "t": float(t)}
        for t, (rank, name) in enumerate(ranks)
    ]
    follower.node_ends = {node: (name, name) for node, name in nodes.items()}
    assert judge(follower, lost) == found
