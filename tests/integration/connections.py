"""Connections of other processes, which a test cuts."""

import contextlib
import ctypes
import os
import socket
import stat
import struct

PIDFD_OPEN, PIDFD_GETFD = 434, 438
SO_ATTACH_FILTER, SO_DETACH_FILTER = 26, 27
LIBC = ctypes.CDLL(None, use_errno=True)


def sockets_of(pid):
    """Its sockets, as ours."""
    pidfd = LIBC.syscall(PIDFD_OPEN, pid, 0)
    try:
        for name in os.listdir(f"/proc/{pid}/fd"):
            try:
                if os.readlink(f"/proc/{pid}/fd/{name}").startswith("socket:"):
                    fd = LIBC.syscall(PIDFD_GETFD, pidfd, int(name), 0)
                    if fd < 0:
                        continue
                    if not stat.S_ISSOCK(os.fstat(fd).st_mode):  # the number is another descriptor's by now
                        os.close(fd)
                        continue
                    with socket.socket(fileno=fd) as own:
                        yield own
            except FileNotFoundError:
                pass
    finally:
        os.close(pidfd)


def kept(connection):
    """A duplicate to keep. Not connection.dup(), which would set it, and with it the process's own, to blocking."""
    return socket.socket(fileno=os.dup(connection.fileno()))


def reset(connection):
    """The process sees the connection closed; the other end receives a RST. Data in flight in both directions is lost."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.shutdown(socket.SHUT_RD)


def finish(connection):
    """Both ends see the connection closed."""
    connection.shutdown(socket.SHUT_RDWR)


def garble(connection):
    """The other end receives data that the process has not sent."""
    connection.send(bytes(range(64)), socket.MSG_DONTWAIT)


def swallow(connection):
    """Nothing that is sent to the process arrives any more, nor do acknowledgements; neither end is notified."""
    drop = ctypes.create_string_buffer(struct.pack("HBBI", 0x06, 0, 0, 0))  # BPF: return 0
    connection.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, struct.pack("HxxxxxxP", 1, ctypes.addressof(drop)))


def unreachable(listener, until_now=False):
    """Drops all new connections silently; with until_now, accepts them again."""
    if until_now:
        listener.setsockopt(socket.SOL_SOCKET, SO_DETACH_FILTER, 0)
    else:
        swallow(listener)


def listeners_of(node, port):
    node.disturbed = True
    for each in sockets_of(node.process.pid):
        if each.family == socket.AF_INET and each.type == socket.SOCK_STREAM and each.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
            if each.getsockname()[1] == port:
                yield each


def rail_port(node, name="ofi"):
    """Where the rail with this name, or of this driver, listens."""
    rail = next(rail for rail in node.tcactl("status")["rails"] if name in (rail["rail"], rail["driver"]))
    return int(rail["address"].rsplit(":", 1)[1])


def connections_of(node, ports):
    """The process's connections to and from these ports."""
    node.disturbed = True
    for each in sockets_of(node.process.pid):
        try:
            ends = (each.getsockname(), each.getpeername()) if each.family == socket.AF_INET and each.type == socket.SOCK_STREAM else ()
        except OSError:
            continue  # it is listening, or has ended meanwhile
        if any(end[1] in ports for end in ends):
            yield each


@contextlib.contextmanager
def cut_off(nodes, rail):
    """Nobody reaches the rail on any of the nodes."""
    ports = {rail_port(node, rail) for node in nodes}
    doors = [kept(each) for node in nodes for port in ports for each in listeners_of(node, port)]
    assert doors
    for door in doors:
        unreachable(door)
    for node in nodes:
        for each in connections_of(node, ports):
            with contextlib.suppress(OSError):
                finish(each)
    yield
    for door in doors:
        unreachable(door, until_now=True)
        door.close()


def control_ports(nodes):
    """Where daemons listen for daemons."""
    return {int(each["address"].rsplit(":", 1)[1]) for each in nodes[0].tcactl("nodes")["nodes"]}


@contextlib.contextmanager
def stalled(node, rail=None, ports=None):
    """What others send to the node over the rail, or from and to these ports, arrives when this ends."""
    connections = [kept(each) for each in connections_of(node, ports or {rail_port(node, rail)})]
    assert connections
    for each in connections:
        swallow(each)
    yield
    for each in connections:
        each.setsockopt(socket.SOL_SOCKET, SO_DETACH_FILTER, 0)
        each.close()
