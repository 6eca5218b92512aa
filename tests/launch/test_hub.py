"""A link between two nodes: what is mirrored, what is refused, and how its loss shows."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tbd.launch import hub
from tbd.launch.hub import FROM_NODE_0, Hub, Link, Remote
from tbd.launch.scheduler import Place
from tbd.worker.status import Ended

OWN = ["nodes/1", "ranks/1"]


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[tuple[Link, Link]]:
    """(node 0's end, node 1's end), each with a folder of its own."""
    ends = socket.socketpair()
    for name in ("0", "1"):
        for folder in OWN:
            (tmp_path / name / folder).mkdir(parents=True)
    links = (
        Link(ends[0], tmp_path / "0", list(FROM_NODE_0), OWN),
        Link(ends[1], tmp_path / "1", OWN, list(FROM_NODE_0)),
    )
    for end in ends:
        end.settimeout(hub.SILENT_S)
    yield links
    for link in links:
        link.close("the test is over")


def soon(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_files_appear_at_the_other_side_as_they_grow(pair: tuple[Link, Link]) -> None:
    zero, one = pair
    events = one.folder / "ranks/1/events.jsonl"
    events.write_text("1\n")
    for link in pair:
        link.begin()
    there = zero.folder / "ranks/1/events.jsonl"
    soon(lambda: there.exists() and there.read_text() == "1\n")
    with events.open("a") as file:
        file.write("2\n")
    soon(lambda: there.read_text() == "1\n2\n")
    assert not (one.folder / "nodes/rendezvous.json").exists()
    (zero.folder / ".go").touch()
    soon((one.folder / ".go").exists)
    (zero.folder / ".go").unlink()  # as before something is sent: tbd/tracking/stream.py
    soon(lambda: not (one.folder / ".go").exists())


def test_what_does_not_grow_is_sent_at_the_end_whole_and_before_it_is_said(pair: tuple[Link, Link]) -> None:
    zero, one = pair
    for link in pair:
        link.begin()
    trace = bytes(range(256)) * (hub.CHUNK_BYTES // 100)
    (one.folder / "ranks/1/deep").mkdir()
    (one.folder / "ranks/1/deep/trace.json.gz").write_bytes(trace)
    (one.folder / "ranks/1/.half.json").write_text("written no further")
    one.finish()
    one.tell(over=6)
    assert Remote(zero).wait(30) == 6
    assert (zero.folder / "ranks/1/deep/trace.json.gz").read_bytes() == trace
    assert not (zero.folder / "ranks/1/.half.json").exists()


@pytest.mark.parametrize(
    "name",
    ["ranks/0/events.jsonl", "run.json", "ranks/1/../../run.json", "/etc/passwd", "ranks/1/out/file", "ranks/11/x"],
)
def test_a_node_writes_nothing_but_its_own(pair: tuple[Link, Link], tmp_path: Path, name: str) -> None:
    zero, one = pair
    (zero.folder / "ranks/1/out").symlink_to(tmp_path)
    zero.begin()
    one._send({"file": name, "offset": 0, "bytes": 1}, b"x")
    soon(lambda: zero.lost is not None)
    assert zero.lost == f"it wrote to {name!r}, which is not its own"
    assert Remote(zero).returncode == 10
    assert not (tmp_path / "file").exists() and not (zero.folder / "run.json").exists()


def test_a_side_that_says_nothing_is_lost(pair: tuple[Link, Link]) -> None:
    zero, _ = pair  # whose other end never begins
    zero._connection.settimeout(0.1)
    zero.begin()
    soon(lambda: zero.lost is not None)
    assert zero.lost is not None and zero.lost.startswith("nothing was heard of it for")
    assert Remote(zero).tail == [zero.lost]


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def test_who_is_no_node_of_the_run_is_hung_up_on(tmp_path: Path) -> None:
    place = Place(0, 2, 0, 1, "127.0.0.1", free_port())
    opened = Hub(place, tmp_path, 1, {"spool_id": "abc", "alike": {"seed": 1}})
    for said in (b"GET / HTTP/1.1\n", b'{"node": 0}\n', b'{"node": 7}\n', b"[]\n"):
        with socket.create_connection((place.address, place.port), timeout=30) as stranger:
            stranger.sendall(said)
            assert stranger.recv(100) == b""
    hello = {"node": 1, "alike": {"seed": 1}}
    found: list[dict[str, str]] = []
    caller = threading.Thread(target=lambda: found.append(hub.call(place._replace(rank=1), hello)[1]))
    caller.start()
    caller.join(30)
    assert found == [{"spool_id": "abc"}]
    with pytest.raises(Ended, match="node 1 went away: the connection to it ended"):
        opened.remotes(30)


def test_a_node_that_never_comes_is_said(tmp_path: Path) -> None:
    place = Place(0, 3, 0, 1, "127.0.0.1", free_port())
    opened = Hub(place, tmp_path, 1, {"spool_id": "abc", "alike": {}})
    with pytest.raises(Ended, match=r"node 1, 2 did not come within 0.05 s"):
        opened.remotes(0.05)
    opened.recorded()
    with (
        pytest.raises(Ended, match=f"MASTER_PORT: port {place.port}: Address already in use"),
        socket.socket() as other,
    ):
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind((place.address, place.port))
        other.listen(1)
        Hub(place, tmp_path, 1, {})
