#!/usr/bin/env python3
"""Garbage on the UNIX socket: its sender loses the connection, and no other client notices."""

import contextlib
import os
import random
import resource
import socket
import time

import wire
from hostile import HostileCase, until
from harness import main


class Frames(HostileCase):
    def dropped(self, node, data, fds=()):
        """A connection that sends this is closed, also if it was valid before."""
        for start in (self.connect, self.open):
            client = start(node)
            client.raw(data, fds)
            self.assertTrue(client.gone(), f"{data[:64]!r} was taken")

    def test_random_bytes(self):
        cluster = self.cluster(fresh=True)
        chance = random.Random(1)
        with self.undisturbed(cluster):
            for length in [1, 2, 15, 16, 17, 64, 1000, 65536, 100000] * 5:
                self.dropped(cluster[0], chance.randbytes(length))
        # 90 connections, each with an error: the number of log messages does not grow with them
        self.assertLess(cluster[0].log_text().count("broken frame"), 45)
        self.assertIn("broken frame", cluster[0].log_text())

    def test_headers(self):
        cluster = self.cluster(fresh=True)
        good = wire.hello()
        with self.undisturbed(cluster):
            for data in (wire.header(len(good))[:8],                                       # truncated
                         wire.header(len(good)) + good[:-1], wire.header(len(good)) + good + b"x",
                         wire.header(len(good), magic=0x46414355) + good,
                         wire.header(len(good), version=wire.VERSION + 1) + good, wire.header(len(good), version=0) + good,
                         wire.header(len(good), flags=2) + good, wire.header(len(good), flags=0xFFFF) + good,
                         wire.header(0xFFFFFFFF) + good, wire.header(wire.PAYLOAD_MAX + 1) + good,
                         wire.header(wire.PAYLOAD_MAX) + good,
                         wire.header(len(good), flags=wire.IN_MEMFD) + good,             # and no memfd
                         wire.header(len(good), flags=wire.IN_MEMFD),
                         wire.header(0), wire.header(0, flags=wire.IN_MEMFD)):
                self.dropped(cluster[0], data)
        self.assertIn("broken frame", cluster[0].log_text())

    def test_memfds(self):
        cluster = self.cluster()
        good = wire.hello()
        head = wire.header(len(good), flags=wire.IN_MEMFD)
        reader, writer = os.pipe()
        null, here = os.open("/dev/null", os.O_RDWR), os.open(__file__, os.O_RDONLY)
        with self.undisturbed(cluster):
            fds = [wire.memfd(good, 0), wire.memfd(good, 0x2 | 0x4), wire.memfd(good, 0x2 | 0x8),  # may be written, may grow
                   wire.memfd(good[:-1]), wire.memfd(good + b"x"), wire.memfd(b""),
                   reader, writer, null, here, socket.socket().detach()]
            for fd in fds:
                self.dropped(cluster[0], head, [fd])
            for size in (wire.PAYLOAD_MAX + 1, 0xFFFFFFFF):
                self.dropped(cluster[0], wire.header(size, flags=wire.IN_MEMFD), [fds[0]])
            with self.connect(cluster[0]) as client:  # and a good one is taken
                self.assertEqual(client.ask(good + wire.number(1000, 1) * 30000)[0], wire.WELCOME)
            for fd in fds:
                os.close(fd)

    def test_descriptors_that_nobody_expects(self):
        cluster = self.cluster()
        null = os.open("/dev/null", os.O_RDWR)
        with self.undisturbed(cluster):
            client = self.open(cluster[0])
            for count in (1, 2, 16):
                for _ in range(20):
                    with self.fails("-EINVAL"):
                        client.ask(wire.blob(wire.REGION_FREE, wire.number(1, 12345)), [null] * count)
            for count in (17, 100, 253):
                self.dropped(cluster[0], wire.header(len(wire.hello())) + wire.hello(), [null] * count)
            self.dropped(cluster[0], b"garbage", [null] * 253)
            client.close()
        os.close(null)

    def test_descriptors_that_are_no_dmabufs(self):
        """Whatever they are called, and whatever comes with them; guest/hca-dmabuf has real ones."""
        cluster = self.cluster()
        ends = socket.socketpair()
        memfds = [os.memfd_create(name) for name in ("dmabuf:", "/dmabuf:\nexp_name:\tvgem\nsize:\t65536")]
        for fd in memfds:
            os.ftruncate(fd, 65536)
        fds = [*memfds, *os.pipe(), ends[0].fileno(), os.open("/", os.O_RDONLY), os.open("/proc/self/fdinfo/0", os.O_RDONLY),
               os.eventfd(1), os.open("/dev/null", os.O_RDWR), os.open("/etc/passwd", os.O_RDONLY | os.O_PATH)]
        with self.undisturbed(cluster):
            client = self.open(cluster[0])
            for count in (1, 2, 16):
                for fd in fds:
                    with self.fails("-EINVAL", "not a dmabuf"):
                        client.ask(wire.region_alloc(4096, wire.DMABUF), [fd] * count)
            with self.fails("-EINVAL", "not a dmabuf"):
                client.ask(wire.region_alloc(4096, wire.DMABUF))
            long = wire.region_alloc(4096, wire.DMABUF) + wire.number(1000, 1) * 30000  # in a memfd of its own
            for own in ([], fds):
                with self.fails("-EINVAL", "not a dmabuf"):
                    client.ask(long, own)
            for flags in (wire.DMABUF | 1, 4, 0xffffffff):
                with self.fails("-EINVAL"):
                    client.ask(wire.region_alloc(4096, flags), [memfds[0]])
            client.close()
        for fd in fds:
            if fd != ends[0].fileno():
                os.close(fd)
        for end in ends:
            end.close()

    @staticmethod
    def socket_that_lingers(listener):
        stuck = socket.create_connection(listener.getsockname())
        stuck.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\x3c\0\0\0")
        stuck.setblocking(False)
        try:
            while True:
                stuck.send(bytes(1 << 20))
        except BlockingIOError:
            pass
        return stuck

    @staticmethod
    @contextlib.contextmanager
    def no_room(node):
        """The process can have no more descriptors than it has."""
        pid = node.process.pid
        limits = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        # what it is about to close is room
        used = set.intersection(*({int(name) for name in os.listdir(f"/proc/{pid}/fd")} for _ in range(5) if not time.sleep(0.02)))
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (min(set(range(len(used) + 1)) - used), limits[1]))
        yield
        resource.prlimit(pid, resource.RLIMIT_NOFILE, limits)

    def test_sockets_that_linger_in_messages_without_room(self):
        """Linux closes those in a message for which there is no room, where it is received."""
        cluster = self.cluster(options={"rails.enable": "shm"})
        listener = socket.create_server(("127.0.0.1", 0))
        client, other = (self.open(cluster[0]) for _ in range(2))
        with self.no_room(cluster[0]):
            stuck = self.socket_that_lingers(listener)
            cluster[0].pause()  # or this process could be the last to close it
            other.send(wire.blob(wire.REGION_FREE, wire.number(1, 1)), [stuck.fileno()])
            stuck.close()
            cluster[0].resume()
            client.socket.settimeout(20)  # the loop goes on
            client.send(wire.blob(wire.REGION_FREE, wire.number(1, 1)))
            with self.fails("-EINVAL"):
                client.answer()
            listener.close()  # resets it
            with self.fails("-EMFILE", "LimitNOFILE="):
                other.answer()
        client.close()
        other.close()

    def test_sockets_that_linger_beside_refused_connections(self):
        cluster = self.cluster(options={"rails.enable": "shm"})
        listener = socket.create_server(("127.0.0.1", 0))
        client = self.open(cluster[0])
        with self.no_room(cluster[0]):
            self.refused_with_a_socket(cluster[0], listener)
            client.socket.settimeout(20)  # the loop goes on
            client.send(wire.blob(wire.REGION_FREE, wire.number(1, 1)))
            with self.fails("-EINVAL"):
                client.answer()
            listener.close()  # resets them
        client.close()

    def refused_with_a_socket(self, node, listener):
        stuck = self.socket_that_lingers(listener)
        node.pause()
        other = self.connect(node)
        other.raw(wire.header(0), [stuck.fileno()])
        stuck.close()
        node.resume()
        other.tag = 1
        with self.fails("-EMFILE", "LimitNOFILE="):
            other.answer()
        other.close()

    def test_sockets_that_linger(self):
        """Closing a socket with unsent data may take as long as its owner likes: not in the daemon's loop."""
        cluster = self.cluster()
        listener = socket.create_server(("127.0.0.1", 0))
        with self.undisturbed(cluster):
            client = self.open(cluster[0])
            for _ in range(3):
                stuck = self.socket_that_lingers(listener)
                for data, fds in ((wire.header(4) + b"what", [stuck.fileno()]), (b"garbage", [stuck.fileno()]),
                                  (b"garbage", [stuck.fileno()] * 20)):
                    other = self.connect(cluster[0])
                    other.raw(data, fds)
                    other.close()
                client.send(wire.blob(wire.REGION_FREE, wire.number(1, 1)), [stuck.fileno()])
                stuck.close()
                client.socket.settimeout(20)
                with self.fails("-EINVAL"):
                    client.answer()
            client.close()
        listener.close()

    def test_messages(self):
        cluster = self.cluster()
        with self.undisturbed(cluster):
            unknown = wire.number(999, 1) + wire.blob(1234, b"future") + wire.fixed(77777, 5)
            with self.connect(cluster[0]) as client:  # unknown fields belong to later versions
                kind, _, fds = client.ask(wire.hello() + unknown)
                self.assertEqual(kind, wire.WELCOME)
                for fd in fds:
                    os.close(fd)
            for payload in (b"", unknown, b"\xff" * 100, b"\x52\xff\xff\xff\xff\x0f", wire.blob(wire.HELLO, b"\xff"),
                            b"\x0a" * 1000, wire.number(wire.HELLO, 5), wire.fixed(wire.HELLO, 5)):
                self.dropped(cluster[0], wire.header(len(payload)) + payload)

    def test_repeated_fields(self):
        """64 MiB of empty chains and steps, which would take gigabytes when unpacked."""
        cluster = self.cluster(fresh=True)
        with self.undisturbed(cluster):
            before = cluster[0].memory_kib()
            empty_chains = wire.blob(wire.PLAN_COMMIT, b"\x2a\x00" * (30 << 20))
            empty_steps = wire.blob(wire.PLAN_COMMIT, wire.blob(5, b"\x0a\x00" * (30 << 20)))
            unknown = wire.blob(wire.HELLO, b"\xf8\x07\x01" * (20 << 20))
            for payload in (empty_chains, empty_steps, unknown):
                client = self.open(cluster[0])
                client.send(payload)
                self.assertTrue(client.gone())
            self.assertIn("a frame is not a message", cluster[0].log_text())
            many = wire.blob(wire.PLAN_COMMIT, b"\x2a\x00" * 100000)
            client = self.open(cluster[0])
            with self.fails("-EINVAL", "a plan of 100000 chains", "at most 64"):
                client.ask(many)
            client.close()
            until(lambda: cluster[0].memory_kib() < before + (300 << 10), "the memory is given back")

    def test_strings(self):
        """Very long names, with NULs and invalid UTF-8: displayed as far as possible."""
        cluster = self.cluster()
        with self.undisturbed(cluster):
            clients = [self.open(cluster[0], name=name) for name in
                       (b"\xff\xfe\x80", b"a\0b", b"x" * 60000, "ü".encode() * 40, b"\x1b[2J\n\r\x07", b"", b"'\"{}%s%n")]
            names = {session["name"] for session in cluster[0].sessions()}
            for name in ("???", "a", "x" * 63, "?[2J???", "", "'\"{}%s%n"):
                self.assertIn(name, names)
            self.assertEqual(len(cluster[0].sessions()), cluster[0].tcactl("status")["sessions"])
            for number, name in enumerate((b"\xff", b"\x1b]0;x\x07", b"y" * 60000)):
                clients[number].ask(wire.commit([wire.notify(0, 0)], name=name))
            self.assertEqual({plan["name"] for plan in cluster[0].plans()} - {"stream", "ack"}, {"?", "?]0;x?", "y" * 63})
            for client in clients:
                client.close()

    def test_order(self):
        """Requests before hello, two hellos, messages of daemons, replies."""
        cluster = self.cluster()
        with self.undisturbed(cluster):
            client = self.connect(cluster[0])
            with self.fails("-EINVAL", "must be a hello"):
                client.ask(wire.region_alloc(4096))
            self.assertTrue(client.gone())

            client = self.open(cluster[0])
            with self.fails("-EINVAL", "second hello"):
                client.ask(wire.hello())
            client.alloc(4096)  # and goes on
            with self.fails("-EINVAL", "second hello"):
                client.ask(wire.hello(admin=True))
            client.close()

            client = self.connect(cluster[0])
            with self.fails("-EPROTONOSUPPORT", f"protocol {wire.VERSION + 1}", f"speaks {wire.VERSION}"):
                client.ask(wire.hello(version=wire.VERSION + 1))
            self.assertTrue(client.gone())
            for size in (0, 1048577, 0xFFFFFFFF):
                client = self.connect(cluster[0])
                with self.fails("-EINVAL", f"group size {size}", "1 to 1048576"):
                    client.ask(wire.hello(group_size=size))
                client.close()

            for kind in (wire.FAILURE, wire.DONE, wire.WELCOME, wire.GROUP_MEMBERS, wire.GATHERED, wire.FOUND,
                         wire.REGION_GRANTED, wire.PLAN_COMMITTED, wire.DOCUMENT, wire.EVENT, wire.PEER_HELLO,
                         wire.PEER_PING, wire.PEER_PONG, wire.PEER_BIND, wire.PEER_BOUND, wire.PEER_UNBIND,
                         wire.PEER_SESSION_GONE, wire.PEER_REGION_GONE, wire.PEER_GROUP_JOIN, wire.PEER_TEAM, wire.PEER_GROUP_ENDS,
                         wire.PEER_PUBLISH, wire.PEER_LOOKUP, wire.PEER_OFFER, wire.PEER_OFFERED):
                client = self.open(cluster[0])
                with self.fails("-EPROTO", "clients may not send"):
                    client.ask(wire.blob(kind, b""))
                self.assertTrue(client.gone())
            client = self.open(cluster[0])  # an administrator's request in a session
            with self.fails("-EPROTO"):
                client.ask(wire.admin("status"))
            client = self.connect(cluster[0])  # a session's request on an administrator's connection
            client.ask(wire.hello(admin=True))
            with self.fails("-EINVAL"):
                client.ask(wire.region_alloc(4096))


if __name__ == "__main__":
    main()
