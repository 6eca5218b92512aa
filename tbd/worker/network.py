"""What this process sends over the network, and where. Linux."""

import fcntl
import os
import socket
import struct

# struct tcp_info of linux/tcp.h (since 4.1): tcpi_bytes_acked and tcpi_bytes_received, 64 bits each, lie at these bytes
ACKED_AT, RECEIVED_AT = 120, 128
SIOCGIFADDR = 0x8915  # linux/sockios.h


def tcp_bytes():
    """(bytes sent and acknowledged, bytes received) so far by all TCP connections that this process has open now.

    The kernel's own count of each connection, headers and repetitions left out: whatever runtime opened it.
    """
    sent = received = 0
    for name in os.listdir("/proc/self/fd"):
        try:
            if not os.readlink("/proc/self/fd/" + name).startswith("socket:"):
                continue
            with socket.socket(fileno=os.dup(int(name))) as connection:
                if connection.type & 0xF != socket.SOCK_STREAM or connection.family not in (
                    socket.AF_INET,
                    socket.AF_INET6,
                ):
                    continue
                info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
        except OSError:  # closed meanwhile
            continue
        if len(info) >= RECEIVED_AT + 8:
            sent += struct.unpack_from("<Q", info, ACKED_AT)[0]
            received += struct.unpack_from("<Q", info, RECEIVED_AT)[0]
    return sent, received


def interface_of(address):
    """The name of the network interface that has this IPv4 address; None where none has."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        for _, name in socket.if_nameindex():
            packed = struct.pack("256s", name.encode("ascii")[:15])
            try:
                found = fcntl.ioctl(any_socket.fileno(), SIOCGIFADDR, packed)[20:24]
            except OSError:  # it has no address
                continue
            if socket.inet_ntoa(found) == address:
                return name
    return None


def held_port(address, port=0):
    """(port, socket): a port of `address`, any free one for 0, kept from others by a socket that never listens there.

    Raises OSError where it is taken. Who is to listen there binds it with SO_REUSEPORT, as gRPC does. It is given
    up when the socket is closed.
    """
    holder = socket.socket()
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    try:
        holder.bind((address, port))
    except OSError:
        holder.close()
        raise
    return holder.getsockname()[1], holder
