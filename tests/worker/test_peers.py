"""The ranks among themselves: they agree, compare clocks, and notice who is gone."""

import contextlib
import json
import socket
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from tbd.worker import network, peers
from tbd.worker.peers import PeerLost, Peers


def request(rank, world_size, port):
    place = {"address": "127.0.0.1", "port": port}
    return {"rank": rank, "world_size": world_size, "spool_id": "a run", "rendezvous": place}


def together(world_size, work):
    """[what `work(peers)` gives in each rank], of ranks that are threads here; the port is held as a launcher does."""
    port, holder = network.held_port("127.0.0.1")

    def rank(number):
        joined = Peers.connect(request(number, world_size, port), "timing")
        try:
            return work(joined)
        finally:
            joined.close()

    try:
        with ThreadPoolExecutor(world_size) as pool:
            return list(pool.map(rank, range(world_size)))
    finally:
        holder.close()


def test_all_ranks_get_all_values_in_the_order_of_ranks():
    found = together(4, lambda p: [p.gather(p.rank), p.gather({"port": 10 * p.rank})])
    assert found == [[[0, 1, 2, 3], [{"port": 10 * rank} for rank in range(4)]]] * 4


def test_they_agree_only_where_all_do():
    assert together(3, lambda p: (p.agree(True), p.agree(p.rank != 1))) == [(True, False)] * 3


def test_one_rank_alone_needs_nobody():
    alone = Peers.connect({"rank": 0, "world_size": 1}, "timing")
    assert alone.gather(7) == [7] and alone.agree(True) and not alone.agree(False)
    assert alone.clock() == (0.0, 0.0)


def test_clocks_of_one_machine_are_the_same_within_their_error():
    for offset, error in together(3, lambda p: p.clock()):
        assert abs(offset) <= error < 1.0


def test_a_clock_that_is_ahead_is_found_so(monkeypatch):
    """The other rank's clock is told to be 1000 s behind."""
    real = peers.time.monotonic
    shift = threading.local()

    class Time:
        sleep = staticmethod(peers.time.sleep)

        @staticmethod
        def monotonic():
            return real() - getattr(shift, "s", 0.0)

    monkeypatch.setattr(peers, "time", Time)

    def work(joined):
        shift.s = 1000.0 * joined.rank
        try:
            return joined.clock()
        finally:
            shift.s = 0.0

    _, (offset, error) = together(2, work)
    assert offset == pytest.approx(1000.0, abs=2 * error)


def test_a_rank_that_leaves_is_noticed():
    def work(joined):
        if joined.rank == 1:
            return "left"
        with pytest.raises(PeerLost, match="rank 1 went away"):
            joined.gather(0)
        return "noticed"

    assert together(2, work) == ["noticed", "left"]


def test_strangers_at_the_port_are_hung_up_on():
    port, holder = network.held_port("127.0.0.1")
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(Peers.connect, request(0, 2, port), "timing")
        for said in (
            b"GET / HTTP/1.1\r\n\r\n",
            json.dumps({"run": "another", "pass": "timing", "rank": 1}).encode() + b"\n",
        ):
            while True:
                try:
                    stranger = socket.create_connection(("127.0.0.1", port), timeout=10)
                    break
                except OSError:
                    continue
            stranger.sendall(said)
            with contextlib.suppress(ConnectionResetError):
                assert stranger.recv(10) == b""
            stranger.close()
        second = Peers.connect(request(1, 2, port), "timing")
        answer = pool.submit(second.gather, 1)
        assert first.result().gather(0) == answer.result() == [0, 1]
    holder.close()


def test_a_port_that_is_taken_is_said():
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen(1)
        port = other.getsockname()[1]
        with pytest.raises(PeerLost, match="rank 0 can't use 127.0.0.1, port .*hardware.port"):
            Peers.connect(request(0, 2, port), "timing")


@pytest.mark.parametrize(("rank", "said"), [(0, "rank 1 did not come within"), (1, "rank 0 was not reached at")])
def test_who_does_not_come_is_not_waited_for_for_ever(monkeypatch, rank, said):
    monkeypatch.setattr(peers, "CONNECT_WITHIN_S", 0.2)
    port, holder = network.held_port("127.0.0.1")
    with pytest.raises(PeerLost, match=said):
        Peers.connect(request(rank, 2, port), "timing")
    holder.close()


def test_a_held_port_is_nobody_elses():
    port, holder = network.held_port("127.0.0.1")
    with socket.socket() as other, pytest.raises(OSError):
        other.bind(("127.0.0.1", port))
    holder.close()


def test_bytes_sent_over_tcp_are_the_kernels_count():
    server = socket.socket()
    server.bind(("127.0.0.1", 0))
    server.listen(1)
    client = socket.create_connection(server.getsockname())
    other, _ = server.accept()
    before = network.tcp_bytes()
    client.sendall(b"x" * 100000)
    received = 0
    while received < 100000:
        received += len(other.recv(65536))
    other.sendall(b"y")
    client.recv(1)  # the answer carries the acknowledgement
    after = network.tcp_bytes()
    for one in (server, client, other):
        one.close()
    assert after[0] - before[0] >= 100000 and after[1] - before[1] == 100001


def test_the_loopback_interface_has_its_address():
    assert network.interface_of("127.0.0.1") == "lo"
    assert network.interface_of("203.0.113.1") is None  # RFC 5737: nobody's


def test_a_link_is_tried_each_way_by_two_ranks_and_the_others_go_on():
    zero, one, two = together(3, lambda p: (p.link(2), p.agree(True))[0])
    assert one is None and zero == two and min(zero) > 0


def test_a_link_is_as_fast_as_what_arrives_in_the_second_half(monkeypatch):
    """A burst at once, then a chunk each 2 ms."""
    arrivals = [0.0, *[0.001] * 20, *(0.002 * number for number in range(1, 101))]

    class Time:
        left = iter(arrivals)
        monotonic = staticmethod(lambda: next(Time.left))

    class Chunks:
        left = iter([b"\0"] * (len(arrivals) - 2) + [b"\1"])

        def read(self, size):
            return next(self.left) + bytes(size - 1)

    monkeypatch.setattr(peers, "time", Time)
    rank = Peers(1, 2, {})
    rank._files[0] = Chunks()
    assert rank._arriving(0) == pytest.approx(peers.LINK_CHUNK / 0.002)


def test_a_rank_that_goes_while_the_link_is_tried_is_told():
    def work(rank):
        if rank.rank == 1:
            return rank.close()
        with pytest.raises(PeerLost, match="rank 1 went away"):
            rank.link(1)

    together(2, work)
