#!/usr/bin/env python3
"""Clients that do not receive the descriptors which tcad sends them. Linux counts these per sending user, and beyond
RLIMIT_NOFILE lets that user send none to anybody."""

import array
import concurrent.futures
import contextlib
import os
import socket
import tempfile
import unittest

import fuse
import wire
from hostile import HostileCase, until
from harness import Cluster, main

DAEMON, ATTACKER, VICTIM = 65531, 65532, 65533  # users
LIMIT = 256


@unittest.skipIf(os.geteuid() != 0, "needs processes of three users, and a tcad without privileges")
class InFlightCase(HostileCase):
    options = {"control.request_timeout": "60s"}  # nobody is refused

    def setUp(self):
        super().setUp()
        self.hostile = Cluster(1, options={"rails.enable": "shm"} | self.options)
        self.addCleanup(self.take_down, self.hostile)
        self.node = self.hostile[0]
        self.hostile.admit_users()
        self.node.start(LIMIT, DAEMON)
        self.node.wait_ready()
        self.idle_fds = self.node.fds()

    def of(self, uid):
        client = wire.Client.of_user(uid, self.node.socket)
        self.addCleanup(client.close)
        return client

    def in_flight(self, uid):
        families = {family["name"]: family["samples"] for family in self.node.tcactl("stats")["families"]}
        return sum(sample["value"] for sample in families["tcad_user_descriptors_in_flight"] if sample["labels"]["uid"] == uid)

    def serve_victims(self):
        """Another user's sessions get all that they ask for."""
        for _ in range(3):
            with self.of(VICTIM) as client:
                client.open()
                regions = [client.alloc(4096) for _ in range(20)]
                for _, _, handle in regions:
                    _, _, fds = client.ask(wire.region_reach(handle))
                    self.assertEqual(len(fds), 1)
                    os.close(fds[0])
                for fd in client.fds:
                    os.close(fd)

    def nothing_is_left(self, uid):
        """Without a tcactl between: a thread of tcad closes its connection."""
        until(lambda: self.node.counts() == (0, 0, 0) and self.in_flight(uid) == 0, "no session is left")
        until(lambda: self.node.fds() <= self.idle_fds, "no descriptor is left")

    @staticmethod
    def read_all(client):
        """Reads the replies to test_unread()'s requests. Returns the number of descriptors."""
        fds = []
        for client.tag in range(client.tag - 39, client.tag + 1):
            fds += client.answer()[2]
        for fd in fds:
            os.close(fd)
        return len(fds)


class InFlight(InFlightCase):
    def test_unread(self):
        """Sessions that ask for a region's descriptor again and again, and read nothing, more of them than tcad may have descriptors."""
        attackers = [self.of(ATTACKER).open() for _ in range(12)]
        handles = [client.alloc(4096)[2] for client in attackers]
        for client, handle in zip(attackers, handles):
            for _ in range(40):
                client.send(wire.region_reach(handle))
        self.serve_victims()
        self.assertLess(self.in_flight(ATTACKER), LIMIT // 2 // 4)
        self.assertGreater(self.in_flight(ATTACKER), 0)
        until(lambda: f"most of them user {ATTACKER}" in self.node.log_text(), "the log says who does not read")
        with concurrent.futures.ThreadPoolExecutor(len(attackers)) as readers:  # they are served as soon as they read
            self.assertEqual(set(readers.map(self.read_all, attackers)), {40})
        self.assertEqual(self.in_flight(ATTACKER), 0)
        for client in attackers:
            client.close()
            for fd in client.fds:
                os.close(fd)
        self.nothing_is_left(ATTACKER)

    def test_ended_unread(self):
        """What a client has not read stays in flight when its connection ends: by itself, or because tcad drops it."""
        attackers = []
        for number in range(60):
            client = self.of(ATTACKER)
            client.send(wire.hello())
            if number < 5:
                until(lambda: client.socket.recv(1, socket.MSG_PEEK), "it has got its descriptors")
            if number in (1, 3):
                client.raw(b"not a frame")
            else:
                client.socket.shutdown(socket.SHUT_RDWR)
            attackers.append(client)
        until(lambda: self.node.counts()[0] == 0, "they have no sessions")
        self.assertGreater(self.in_flight(ATTACKER), 0)
        self.serve_victims()
        self.assertLess(self.in_flight(ATTACKER), LIMIT // 2 // 4)
        for client in attackers:
            client.close()
        self.nothing_is_left(ATTACKER)

    def test_others_of_its_user(self):
        """Another process of tcad's user has all descriptors in flight that Linux allows: tcad's clients wait until it has fewer."""
        done, go = os.pipe()
        filled, full = os.pipe()
        if os.fork() == 0:
            os.setgroups([])
            os.setresuid(DAEMON, DAEMON, DAEMON)
            ends = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            for _ in range(LIMIT // 64 + 1):
                ends[0].sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0] * 64))])
            os.close(go)
            os.write(full, b"x")
            os.read(done, 1)  # until the test closes its end
            os._exit(0)
        os.close(full)
        self.assertEqual(os.read(filled, 1), b"x")
        clients = [self.of(VICTIM) for _ in range(5)]
        for client in clients:
            client.send(wire.hello())
        until(lambda: "as many descriptors in flight as Linux allows" in self.node.log_text(), "it waits")
        os.close(go)
        os.wait()
        for client in clients:
            kind, _, fds = client.answer()
            self.assertEqual((kind, len(fds)), (wire.WELCOME, 3))
            for fd in fds:
                os.close(fd)
        self.serve_victims()
        for fd in (done, filled):
            os.close(fd)


class Refused(InFlightCase):
    options = {"control.request_timeout": "2s"}

    def test_says_why(self):
        """A new session of a user whose others do not read is refused, with the reason and a pid; those of others are served."""
        attackers = [self.of(ATTACKER) for _ in range(15)]
        for client in attackers:
            client.send(wire.hello())
        with self.fails("-EDQUOT", f"processes of user {ATTACKER}", f"most of them pid {os.getpid()}", "end them"):
            self.of(ATTACKER).open()
        self.serve_victims()
        served = 0
        for client in attackers:  # the first ones are; those that had to wait are refused, too
            try:
                served += len(client.answer()[2]) == 3
            except wire.Failure as failure:
                self.assertEqual(failure.name, "-EDQUOT", failure.text)
            client.close()
        self.assertGreater(served, 0)
        self.assertLess(served, len(attackers))


@unittest.skipIf(os.geteuid() != 0, "only root may mount")
class Foreign(HostileCase):
    """Descriptors whose close() blocks: tcad serves everybody else."""

    def serve_victims(self, path):
        for _ in range(3):
            with wire.Client.of_user(VICTIM, path) as victim:
                victim.open().alloc(4096)
                for fd in victim.fds:
                    os.close(fd)

    def test_never_closed(self):
        cluster = self.cluster(fresh=True, options={"rails.enable": "shm", "limits.sessions_per_user": 20})
        cluster.admit_users()
        node = cluster[0]
        directory = tempfile.mkdtemp(prefix="tca-test-")
        self.addCleanup(os.rmdir, directory)
        try:
            hostile = fuse.FileSystem(directory, node.process.pid)
        except OSError as error:
            self.skipTest(str(error))
        self.addCleanup(hostile.end)
        file = hostile.open()
        # beside a request, as the payload of one, beside that, too many, and in what is not read; each of another user
        payload = wire.header(100000, flags=wire.IN_MEMFD)
        for number, (data, count) in enumerate(((wire.header(0), 1), (payload, 1), (payload, 16), (wire.header(0), 250),
                                                (b"no frame", 250))):
            with wire.Client.of_user(ATTACKER - 10 - number, node.socket) as client:
                client.raw(data, [file] * count)
                until(lambda: hostile.closing > number, "tcad is closing one")
                self.serve_victims(node.socket)
        # of more users than a worker has threads; then more connections end than may wait to be closed
        for number in range(20):
            with wire.Client.of_user(ATTACKER - 100 - number, node.socket) as client:
                client.raw(wire.header(0), [file])
                until(lambda: hostile.closing > number + 5, "tcad is closing one")
        for _ in range(300):
            with wire.Client.of_user(VICTIM, node.socket) as client:
                client.raw(wire.header(0))
                self.assertTrue(client.gone())
        # more connections than may wait
        with wire.Client.of_user(ATTACKER, node.socket) as client:
            client.raw(wire.header(0), [file] * 250)
        for _ in range(300):
            with wire.Client.of_user(ATTACKER, node.socket) as client, contextlib.suppress(wire.Gone):
                client.raw(wire.header(0))
                self.assertTrue(client.gone())
        with self.fails("-EDQUOT", "wait to be closed"), wire.Client.of_user(ATTACKER, node.socket) as client:
            client.tag = 1
            client.answer()
        self.serve_victims(node.socket)
        self.assert_well(node)
        os.close(file)
        node.process.terminate()
        until(lambda: not os.path.exists(node.socket), "tcad has ended, except for the threads that wait")
        hostile.end()
        self.assertEqual(node.process.wait(60), 0)


if __name__ == "__main__":
    main()
