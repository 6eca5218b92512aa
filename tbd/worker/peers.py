"""The ranks of a run among themselves: what they agree on, and how far their clocks are apart.

Gradients are exchanged by the framework's own runtime and by nothing here. This is a connection of every rank to rank
0, at the address and port of the request's `rendezvous`, for what no framework does: ending the warm-up at the same
step in every rank, beginning the window together, comparing clocks, trying how fast the link between two nodes is,
telling each other a port. Nothing is sent between the first and the last timed step.
"""

import json
import socket
import time

CONNECT_WITHIN_S = 120.0  # from the first rank's start to the last one's: importing a framework can take a minute
RETRY_EVERY_S = 0.05
CLOCK_ROUNDS = 20
LINK_S = 0.3  # each way: 3.7 MB at 100 Mbit/s, long against what a switch or a shaper lets through at once
LINK_CHUNK = 2**17  # bytes


class PeerLost(Exception):
    """Another rank has gone, or never came. The message says which."""


class Peers(object):
    """The connection of this rank with the others. With a world of one everything here is done at once."""

    def __init__(self, rank, world_size, connections):
        """`connections`: {rank: socket} of all others in rank 0, of rank 0 alone in every other."""
        self.rank, self.world_size = rank, world_size
        self._sockets = connections
        self._files = {other: connection.makefile("rb") for other, connection in connections.items()}

    @classmethod
    def connect(cls, request, pass_name):
        """The Peers of the request's rank in a pass. Waits for all; raises PeerLost where one doesn't come in time, or
        where the port is taken."""
        rank, world_size = request["rank"], request["world_size"]
        if world_size == 1:
            return cls(rank, world_size, {})
        place = request["rendezvous"]
        hello = {"run": request["spool_id"], "pass": pass_name}
        deadline = time.monotonic() + CONNECT_WITHIN_S
        if rank == 0:
            return cls(rank, world_size, welcome(place, hello, world_size, deadline))
        return cls(rank, world_size, {0: call(place, dict(hello, rank=rank), deadline)})

    def gather(self, value):
        """[every rank's value], the same list in every rank; `value` is anything that JSON has, which has no tuples."""
        if self.rank != 0:
            self._send(0, value)
            return self._receive(0)
        values = [value] + [self._receive(other) for other in range(1, self.world_size)]
        for other in range(1, self.world_size):
            self._send(other, values)
        return values

    def agree(self, flag):
        """Whether all ranks say yes. Every rank goes on from here at about the same time."""
        return all(self.gather(bool(flag)))

    def clock(self):
        """(seconds that rank 0's monotonic clock is ahead of this one, at most so many seconds off).

        Of CLOCK_ROUNDS questions the one that was answered soonest: rank 0's time lies between asking and answer, so
        their middle is off by half of what that took at most (Cristian 1989, Distributed Computing 3(3)).
        """
        if self.rank == 0:
            for other in range(1, self.world_size):
                for _ in range(CLOCK_ROUNDS):
                    self._receive(other)
                    self._send(other, time.monotonic())
            return 0.0, 0.0
        rounds = []
        for _ in range(CLOCK_ROUNDS):
            asked = time.monotonic()
            self._send(0, None)
            theirs = self._receive(0)
            answered = time.monotonic()
            rounds.append(((answered - asked) / 2, theirs - (asked + answered) / 2))
        error, offset = min(rounds)
        return offset, error

    def link(self, other):
        """(bytes a second from rank 0 to `other`, and back), as one TCP connection gets them; None in every third rank.

        Each way chunks are sent for LINK_S, and what arrives in the second half of the time counts: by then TCP has
        found its speed, and buffers on the way are full.
        """
        if self.rank not in (0, other):
            return None
        if self.rank == 0:
            self._stream(other)
            there, back = self._receive(other), self._arriving(other)
            self._send(other, back)
            return there, back
        there = self._arriving(0)
        self._send(0, there)
        self._stream(0)
        return there, self._receive(0)

    def _stream(self, other):
        """Send chunks for LINK_S; the last one begins with a 1."""
        chunk, deadline = bytes(LINK_CHUNK), time.monotonic() + LINK_S
        try:
            while time.monotonic() < deadline:
                self._sockets[other].sendall(chunk)
            self._sockets[other].sendall(b"\1" + chunk[1:])
        except OSError as error:
            raise PeerLost("rank %d went away: %s" % (other, error))

    def _arriving(self, other):
        """Bytes a second of what the other rank streams, in the second half of the time that it takes to arrive."""
        arrived = [time.monotonic()]
        chunk = b"\0"
        while chunk[:1] == b"\0":
            try:
                chunk = self._files[other].read(LINK_CHUNK)
            except OSError as error:
                raise PeerLost("rank %d went away: %s" % (other, error))
            if len(chunk) < LINK_CHUNK:
                raise PeerLost("rank %d went away" % other)
            arrived.append(time.monotonic())
        middle = (arrived[0] + arrived[-1]) / 2
        first = min(next(number for number, t in enumerate(arrived) if t >= middle), len(arrived) - 2)
        return (len(arrived) - 1 - first) * LINK_CHUNK / max(arrived[-1] - arrived[first], 1e-9)

    def close(self):
        for other, connection in self._sockets.items():
            self._files[other].close()
            connection.close()

    def _send(self, other, value):
        try:
            self._sockets[other].sendall((json.dumps(value) + "\n").encode("utf-8"))
        except OSError as error:
            raise PeerLost("rank %d went away: %s" % (other, error))

    def _receive(self, other):
        try:
            line = self._files[other].readline()
        except OSError as error:
            raise PeerLost("rank %d went away: %s" % (other, error))
        if not line.endswith(b"\n"):
            raise PeerLost("rank %d went away" % other)
        return json.loads(line.decode("utf-8"))


def welcome(place, hello, world_size, deadline):
    """Rank 0: {rank: socket} of all others, once each of them has called. What calls without `hello` is hung up on."""
    listener = socket.socket()
    # the launcher keeps the port from others by a socket bound to it that does not listen
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    connections = {}
    try:
        try:
            listener.bind((place["address"], place["port"]))
        except OSError as error:
            raise PeerLost(
                "rank 0 can't use %s, port %d: %s. Another hardware.port may be free"
                % (place["address"], place["port"], error.strerror)
            )
        listener.listen(world_size)
        while len(connections) < world_size - 1:
            listener.settimeout(max(0.01, deadline - time.monotonic()))
            try:
                connection = listener.accept()[0]
            except socket.timeout:
                missing = sorted(set(range(1, world_size)) - set(connections))
                raise PeerLost("rank %s did not come within %g s" % (", ".join(map(str, missing)), CONNECT_WITHIN_S))
            told = heard(connection)
            rank = told.pop("rank", None)
            if told == hello and rank in range(1, world_size) and rank not in connections:
                connections[rank] = connection
            else:
                connection.close()
    finally:
        listener.close()
    for connection in connections.values():  # only now, that the next pass's ranks find nobody listening here
        connection.sendall(b"{}\n")
    return connections


def call(place, hello, deadline):
    """Another rank: the socket to rank 0, once all ranks have called it."""
    reason = "it does not listen"
    while time.monotonic() < deadline:
        try:
            connection = socket.create_connection((place["address"], place["port"]), timeout=CONNECT_WITHIN_S)
        except OSError as error:
            reason = str(error)
            time.sleep(RETRY_EVERY_S)
            continue
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.sendall((json.dumps(hello) + "\n").encode("utf-8"))
            if connection.recv(3) == b"{}\n":
                connection.settimeout(None)  # who hangs is the launcher's business
                return connection
            reason = "it hung up"
        except OSError as error:
            reason = str(error)
        connection.close()
        time.sleep(RETRY_EVERY_S)
    raise PeerLost(
        "rank 0 was not reached at %s, port %d, within %g s: %s"
        % (place["address"], place["port"], CONNECT_WITHIN_S, reason)
    )


def heard(connection):
    """What a caller says of itself; {} where that is nothing of ours."""
    connection.settimeout(5.0)
    try:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        data = b""
        while not data.endswith(b"\n") and len(data) < 4096:
            chunk = connection.recv(1)
            if not chunk:
                return {}
            data += chunk
        told = json.loads(data.decode("utf-8"))
    except (OSError, ValueError):
        return {}
    connection.settimeout(None)
    return told if isinstance(told, dict) else {}
