"""Another machine, as the network shows it: a network namespace of its own, joined to this one by a cable (veth).

What this machine has on its loopback is out of its reach, and its own loopback is another. Needs root and iproute2.
"""

import contextlib
import socket
import subprocess
import threading
import uuid
from collections.abc import Iterator
from dataclasses import dataclass

# of TEST-NET-2 (RFC 5737), which nobody has
HERE, THERE = "198.51.100.1", "198.51.100.2"


@dataclass(frozen=True)
class Machine:
    """`here`: this machine's address, as the other one reaches it."""

    namespace: str
    here: str = HERE

    def command(self, *command: str) -> list[str]:
        """The command, as it is run there."""
        return ["nsenter", f"--net=/run/netns/{self.namespace}", *command]


@contextlib.contextmanager
def machine() -> Iterator[Machine]:
    name = f"tbd-{uuid.uuid4().hex[:8]}"  # of an interface too: 15 characters
    other = Machine(name)
    subprocess.run(["ip", "netns", "add", name], check=True)
    try:
        for command in (
            ["ip", "link", "add", name, "type", "veth", "peer", "name", "cable", "netns", name],
            ["ip", "addr", "add", f"{HERE}/30", "dev", name],
            ["ip", "link", "set", name, "up"],
            other.command("ip", "addr", "add", f"{THERE}/30", "dev", "cable"),
            other.command("ip", "link", "set", "cable", "up"),
            other.command("ip", "link", "set", "lo", "up"),
        ):
            subprocess.run(command, check=True)
        yield other
    finally:
        subprocess.run(["ip", "netns", "del", name], check=True)  # the cable goes with it


@contextlib.contextmanager
def forwarded(port: int) -> Iterator[int]:
    """The port at `HERE` behind which the loopback's port answers."""
    listener = socket.create_server((HERE, 0))

    def copy(source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                target.sendall(data)
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_WR)

    def serve() -> None:
        with contextlib.suppress(OSError):  # closed
            while True:
                incoming, _ = listener.accept()
                outgoing = socket.create_connection(("127.0.0.1", port))
                for ends in ((incoming, outgoing), (outgoing, incoming)):
                    threading.Thread(target=copy, args=ends, daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
