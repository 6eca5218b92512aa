"""The nodes of a run that share no folder: a connection of each to node 0, over which files are mirrored as they grow.

What an agent and its ranks write at their node appears in the run's spool at node 0 as if it had been written there,
and node 0's rendezvous.json and `go` at every node. A line of JSON each, a file's bytes after it; a side that hears
nothing for SILENT_S takes the other for lost. Nothing that is received is run, and files go only where the node's own
belong.
"""

import contextlib
import json
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from tbd.config.plan import GO
from tbd.launch.scheduler import Place
from tbd.worker import status
from tbd.worker.status import EXIT_CODES, Ended

JOIN_WITHIN_S = 600.0  # for all nodes to come; torchrun's own wait for them (dynamic_rendezvous.py, join_timeout)
SILENT_S = 30.0  # without a line from the other side, which sends one every second
LOOK_EVERY_S = 0.5
ALIVE_EVERY_S = 1.0
RETRY_EVERY_S = 0.25
CHUNK_BYTES = 2**20
LONGEST_LINE = 65536
GROWING = (".jsonl", ".log")  # are only ever appended to; what else ranks write is sent when they have ended
FROM_NODE_0 = (GO, "nodes/rendezvous.json")


class Link:
    """A connection between node 0 and another. `mine`: the files and folders below `folder` that are sent to the other
    side; `theirs`: those that it may write here. `lost`: how the connection ended; None while it stands."""

    def __init__(self, connection: socket.socket, folder: Path, mine: list[str], theirs: list[str]):
        self.folder = folder
        self.lost: str | None = None
        self._connection, self._mine, self._theirs = connection, mine, theirs
        self._reader = connection.makefile("rb")
        self._told: dict[str, Any] = {}
        self._sent: dict[str, int] = {}
        self._writing = threading.RLock()
        self._changed = threading.Condition()

    def begin(self) -> None:
        """Mirror from now on."""
        for work in (self._receive, self._send_what_grows):
            threading.Thread(target=self._until_lost, args=(work,), name="link", daemon=True).start()

    def tell(self, **message: Any) -> None:
        """Send a message; a connection that is lost takes none."""
        with contextlib.suppress(OSError):
            self._send(message)

    def heard(self, key: str, timeout_s: float = 0.0) -> Any:
        """What the other side told under `key`, waiting so long for it; None where it did not, or is lost."""
        with self._changed:
            self._changed.wait_for(lambda: key in self._told or self.lost is not None, timeout_s)
            return self._told.get(key)

    def finish(self) -> None:
        """Send all that is not sent yet: every file of mine to its end."""
        with contextlib.suppress(OSError):
            self._mirror(whole=True)

    def close(self, how: str) -> None:
        with self._changed:
            self.lost = self.lost or how
            self._changed.notify_all()
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)

    def _until_lost(self, work: Any) -> None:
        try:
            work()
        except TimeoutError:
            self.close(f"nothing was heard of it for {SILENT_S:g} s")
        except (OSError, ValueError) as error:
            self.close(str(error))

    def _send(self, message: dict[str, Any], data: bytes = b"") -> None:
        with self._writing:
            self._connection.sendall((json.dumps(message) + "\n").encode() + data)

    def _send_what_grows(self) -> None:
        alive = 0.0
        while self.lost is None:
            self._mirror(whole=False)
            if time.monotonic() - alive > ALIVE_EVERY_S:
                self._send({})
                alive = time.monotonic()
            with self._changed:
                self._changed.wait_for(lambda: self.lost is not None, LOOK_EVERY_S)

    def _mirror(self, whole: bool) -> None:
        with self._writing:
            there = dict(self._files())
            for name in [name for name in self._sent if name not in there]:
                del self._sent[name]
                self._send({"gone": name})
            for name, path in there.items():
                if whole or path.suffix in GROWING or name in self._mine:
                    self._send_file(name, path)

    def _files(self) -> Iterator[tuple[str, Path]]:
        """(name below the folder, path) of each file of mine; those that are only half written are left out."""
        for mine in self._mine:
            path = self.folder / mine
            for found in sorted(path.rglob("*")) if path.is_dir() else [path]:
                if found.is_file() and (mine == GO or not found.name.startswith(".")):
                    yield str(PurePosixPath(found.relative_to(self.folder))), found

    def _send_file(self, name: str, path: Path) -> None:
        with open(path, "rb") as file:
            offset = self._sent.get(name, 0)
            file.seek(offset)
            while (data := file.read(CHUNK_BYTES)) or name not in self._sent:
                self._send({"file": name, "offset": offset, "bytes": len(data)}, data)
                offset += len(data)
                self._sent[name] = offset

    def _receive(self) -> None:
        while self.lost is None:
            line = self._reader.readline(LONGEST_LINE)
            if not line.endswith(b"\n"):
                raise ConnectionError("the connection to it ended")
            message = json.loads(line)
            if "file" in message:
                self._take(str(message["file"]), int(message["offset"]), int(message["bytes"]))
            elif "gone" in message:
                self._own(str(message["gone"])).unlink(missing_ok=True)
            else:
                with self._changed:
                    self._told.update(message)
                    self._changed.notify_all()

    def _take(self, name: str, offset: int, size: int) -> None:
        if not 0 <= size <= CHUNK_BYTES or offset < 0:
            raise ValueError(f"{size} bytes at {offset} of {name!r} can't be")
        data = self._reader.read(size)
        if len(data) != size:
            raise ConnectionError("the connection to it ended")
        path = self._own(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.part")
        if offset == 0 and size < CHUNK_BYTES and not path.exists():
            temporary.write_bytes(data)  # whoever waits for the file finds it whole
            temporary.replace(path)
            return
        with open(path, "r+b" if path.exists() else "wb") as file:
            file.seek(offset)
            file.write(data)

    def _own(self, name: str) -> Path:
        """The path here of a file that the other side may write. Raises ValueError for any other."""
        parts = PurePosixPath(name).parts
        allowed = any(parts[: len(own)] == own for own in (PurePosixPath(one).parts for one in self._theirs))
        path = self.folder.joinpath(*parts)
        if not allowed or ".." in parts or not path.resolve().is_relative_to(self.folder.resolve()):
            raise ValueError(f"it wrote to {name!r}, which is not its own")
        return path


def of_node(node: int, devices: int) -> list[str]:
    """What a node writes of the spool."""
    return [f"nodes/{node}", *(f"ranks/{node * devices + index}" for index in range(devices))]


class Remote:
    """The agent of another node, as node 0 sees it; to be used as a tbd.launch.process.Process."""

    def __init__(self, link: Link):
        self._link = link

    @property
    def returncode(self) -> int | None:
        code = self._link.heard("over")
        if code is None and self._link.lost is not None:
            return EXIT_CODES[status.LOST_NODE]
        return None if code is None else int(code)

    @property
    def tail(self) -> list[str]:
        return [self._link.lost or ""]

    def poll(self) -> int | None:
        return self.returncode

    def wait(self, timeout: float | None = None) -> int | None:
        self._link.heard("over", timeout if timeout is not None else threading.TIMEOUT_MAX)
        return self.returncode

    def terminate(self, grace: float = 10.0) -> None:
        """Have the node end all that it started, and wait for it, or for SILENT_S where it answers no more."""
        if self.returncode is None:
            self._link.tell(end=True)
            self.wait(grace + SILENT_S)
            if self.returncode is None:
                self._link.close("it was told to end, and did not")


class Hub:
    """Node 0's end: listens from its making on, and keeps what comes in `folder`, the run's spool."""

    def __init__(self, place: Place, folder: Path, devices: int, run: dict[str, Any]):
        """`run`: what all nodes must have alike, told to each that comes. Raises Ended where the port is taken."""
        self.links: dict[int, Link] = {}
        self._place, self._folder, self._devices, self._run = place, folder, devices, run
        self._refused: str | None = None
        self._changed = threading.Condition()
        self._listener = socket.socket()
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            try:
                self._listener.bind((place.address, place.port))
            except OSError:  # a name of a service in front of this machine
                self._listener.bind(("", place.port))
        except OSError as error:
            raise Ended(
                status.CRASHED, f"MASTER_PORT: port {place.port}: {error.strerror}: another MASTER_PORT"
            ) from None
        self._listener.listen(place.nodes)
        threading.Thread(target=self._welcome, name="hub", daemon=True).start()

    def remotes(self, timeout_s: float = JOIN_WITHIN_S) -> list[Remote]:
        """The other nodes' agents, once every node has come and is ready to start its ranks. Raises Ended."""
        deadline = time.monotonic() + timeout_s
        others = range(1, self._place.nodes)
        with self._changed:
            self._changed.wait_for(lambda: self._refused is not None or set(others) <= set(self.links), timeout_s)
            if self._refused is not None:
                raise Ended(status.BAD_CONFIG, self._refused)
            missing = [str(node) for node in others if node not in self.links]
        if missing:
            raise Ended(status.LOST_NODE, f"node {', '.join(missing)} did not come within {timeout_s:g} s")
        for node in others:
            link = self.links[node]
            if link.heard("ready", max(0.0, deadline - time.monotonic())) is None:
                raise Ended(status.LOST_NODE, f"node {node} went away: {link.lost or 'it did not get ready'}")
        return [Remote(self.links[node]) for node in others]

    def recorded(self) -> None:
        """Let the other nodes go."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # close alone would not wake accept
        self._listener.close()
        for link in self.links.values():
            link.tell(end=True, recorded=True)

    @property
    def address(self) -> str:
        """Node 0's own, as the others reach it."""
        return str(next(iter(self.links.values()))._connection.getsockname()[0])

    def _welcome(self) -> None:
        with contextlib.suppress(OSError):  # closed: the run is over
            while True:
                connection = self._listener.accept()[0]
                # a thread each: one that says nothing keeps nobody else waiting
                threading.Thread(target=self._hello, args=(connection,), name="hello", daemon=True).start()

    def _hello(self, connection: socket.socket) -> None:
        """Take the node that calls, or tell it why not; hang up on whoever is none of the run's."""
        connection.settimeout(SILENT_S)
        try:
            told = json.loads(read_line(connection))
            node, others = int(told["node"]), dict(told["alike"])
        except (OSError, ValueError, TypeError, KeyError):
            connection.close()
            return
        alike = self._run["alike"]
        differ = sorted(key for key in alike if others.get(key) != alike[key])
        with self._changed, contextlib.suppress(OSError):
            if node not in range(1, self._place.nodes) or node in self.links:
                connection.close()
            elif differ:
                self._refused = f"node {node} was started with another {', '.join(differ)} than node 0"
                connection.sendall((json.dumps({"refused": self._refused}) + "\n").encode())
                connection.close()
            else:
                self.links[node] = self._link(connection, node)
            self._changed.notify_all()

    def _link(self, connection: socket.socket, node: int) -> Link:
        connection.sendall((json.dumps({"spool_id": self._run["spool_id"]}) + "\n").encode())
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        own = of_node(node, self._devices)
        for folder in own:
            (self._folder / folder).mkdir(parents=True, exist_ok=True)
        link = Link(connection, self._folder, list(FROM_NODE_0), own)
        link.begin()
        return link


def call(place: Place, hello: dict[str, Any]) -> tuple[socket.socket, dict[str, Any]]:
    """Another node: (the connection to node 0, its answer). Waits JOIN_WITHIN_S for it. Raises Ended."""
    deadline, reason = time.monotonic() + JOIN_WITHIN_S, "it does not listen"
    while time.monotonic() < deadline:
        try:
            connection = socket.create_connection((ipv4(place), place.port), timeout=SILENT_S)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.sendall((json.dumps(hello) + "\n").encode())
            answer = json.loads(read_line(connection))
        except (OSError, ValueError) as error:
            reason = str(error)
            time.sleep(RETRY_EVERY_S)
            continue
        if "refused" in answer:
            raise Ended(status.BAD_CONFIG, str(answer["refused"]))
        return connection, answer
    where = f"{place.address}, port {place.port}"
    raise Ended(status.LOST_NODE, f"node 0 was not reached at {where}, within {JOIN_WITHIN_S:g} s: {reason}")


def ipv4(place: Place) -> str:
    return str(socket.getaddrinfo(place.address, place.port, socket.AF_INET, socket.SOCK_STREAM)[0][4][0])


def read_line(connection: socket.socket) -> bytes:
    """The next line and not a byte more: what follows it is the Link's."""
    data = b""
    while not data.endswith(b"\n"):
        byte = connection.recv(1)
        if not byte or len(data) > LONGEST_LINE:
            raise ConnectionError("the other side hung up")
        data += byte
    return data
