#!/usr/bin/env python3
"""Clients that do not read, send nothing, or write where they must not."""

import ctypes
import fcntl
import mmap
import os
import socket
import struct
import subprocess
import unittest

import wire
from hostile import HostileCase, until
from harness import DEADLINE_S, Stream, main, program

MIB = 1 << 20
STRANGER = 65534  # another user
# proto/segment.h: struct session_segment
LINE, CHANNELS, SUBMIT, COMPLETE, PLANS, TRIALS, PARTS = 64, 4, 256, 1024, 4096, 64, 1024
AT_ARMED, AT_SUBMIT = LINE, 3 * LINE
AT_COMPLETE = AT_SUBMIT + CHANNELS * 2 * LINE
AT_SUBMIT_ENTRIES = AT_COMPLETE + 2 * LINE + 2 * PLANS * 8 + TRIALS * 2 * LINE + PARTS * 32
SEGMENT_BYTES = AT_SUBMIT_ENTRIES + CHANNELS * SUBMIT * 16 + COMPLETE * LINE


class Segment:
    """The session segment of a wire.Client, written directly."""

    def __init__(self, client):
        self.client = client
        assert client.welcome[6][0] == SEGMENT_BYTES, "the offsets above are not those of proto/segment.h"
        self.map = mmap.mmap(client.fds[0], SEGMENT_BYTES)
        self.tails = [0] * CHANNELS

    def submit(self, plan, channel=0):
        at = AT_SUBMIT_ENTRIES + (channel * SUBMIT + self.tails[channel] % SUBMIT) * 16
        struct.pack_into("<IIQ", self.map, at, plan, 1, 0)
        self.tails[channel] += 1
        self.set_tail(self.tails[channel], channel)

    def set_tail(self, tail, channel=0):
        # in one store: struct.pack_into() would write a 0 first
        ctypes.c_uint32.from_buffer(self.map, AT_SUBMIT + channel * 2 * LINE).value = tail
        self.ring()

    def ring(self):
        os.write(self.client.fds[2], struct.pack("<Q", 1))

    def taken(self, channel=0):
        return struct.unpack_from("<I", self.map, AT_SUBMIT + channel * 2 * LINE + LINE)[0]

    def completions(self):
        """How many there were."""
        return struct.unpack_from("<I", self.map, AT_COMPLETE)[0]


class Clients(HostileCase):
    def test_never_reads(self):
        cluster = self.cluster(fresh=True)
        with self.undisturbed(cluster):
            questions = {"sessions": wire.admin("sessions"), "config": wire.admin("config"), "plans": wire.admin("plans")}
            for payload in questions.values():
                client = self.connect(cluster[0])
                client.ask(wire.hello(admin=True))
                with self.assertRaises(wire.Gone):
                    for _ in range(200000):
                        client.send(payload)
                client.close()
            client = self.open(cluster[0])  # each reply with a descriptor: it is not read before it has read
            client.socket.setblocking(False)
            with self.assertRaises(BlockingIOError):
                for _ in range(200000):
                    client.send(wire.region_alloc(4096))
            self.assertLess(cluster[0].counts()[1], 1000)
            client.close()
        self.assertIn("does not read its replies", cluster[0].log_text())

    def mapping(self, node):
        """A client commits puts into 4,000 regions, which it maps; on return, the daemon is waiting for the client to read."""
        client = self.open(node)
        regions = [client.alloc(4096) for _ in range(4000)]
        client.send(wire.commit([wire.put(region, handle, wire.contiguous(8), b"") for region, _, handle in regions], seat=1))

        def queued():
            """Bytes queued in the daemon, beyond what the socket holds."""
            families = {family["name"]: family for family in node.tcactl("stats")["families"]}
            return sum(sample["value"] for sample in families["tcad_user_bytes"]["samples"] if sample["labels"]["kind"] == "messages")

        until(lambda: queued() > 0 or node.counts()[2] == 0, "the socket is full")
        return client

    def test_reads_slowly(self):
        """More descriptors than may be queued: the daemon sends them as fast as they are read."""
        cluster = self.cluster()
        client = self.mapping(cluster[0])
        kind, mapped = wire.EVENT, 0
        while kind == wire.EVENT:
            tag, kind, body, fds = client.receive()
            mapped += len(fds)
            for fd in fds:
                os.close(fd)
        self.assertEqual((tag, kind, mapped), (client.tag, wire.PLAN_COMMITTED, 4000))
        client.close()
        until(lambda: cluster[0].counts() == (0, 0, 0), "nothing is left")
        descriptors = cluster[0].fds()
        for gone in (False, True):  # ends without having read
            client = self.mapping(cluster[0])
            if gone:
                client.close()
            else:
                client.socket.shutdown(socket.SHUT_RDWR)
            until(lambda: cluster[0].counts() == (0, 0, 0), "nothing is left")
            client.close()
            until(lambda: cluster[0].fds() <= descriptors, "its descriptors are closed")
        self.assert_well(cluster[0])

    def test_does_not_read_what_others_freed(self):
        """A client has mapped thousands of regions, and is notified once of each freed one, as fast as it reads."""
        count = 2000
        cluster = self.cluster()
        owner, client = self.open(cluster[0]), self.open(cluster[0])
        own, _, _ = client.alloc(4096)
        regions = [owner.alloc(4096) for _ in range(count)]
        kind, body, fds = client.ask(wire.commit([wire.put(own, handle, wire.contiguous(8), b"") for _, _, handle in regions], seat=1))
        for fd in fds:
            os.close(fd)
        self.assertEqual(kind, wire.PLAN_COMMITTED)
        client.events.clear()
        client.ask(wire.blob(wire.PLAN_RELEASE, wire.number(1, body.get(1, [0])[0])))
        for region, _, _ in regions:
            owner.ask(wire.blob(wire.REGION_FREE, wire.number(1, region)))
        gone = []
        while len(gone) < count:
            _, kind, body, _ = client.receive()
            self.assertEqual((kind, body[1]), (wire.EVENT, [2]))
            gone += wire.varints(body[3][0])
        self.assertEqual(sorted(gone), sorted(region for region, _, _ in regions))
        client.ask(wire.region_alloc(4096))
        self.assertEqual(client.events, [])

    def test_does_not_read_which_plans_broke(self):
        """A program computes while thousands of its plans break: it is notified of each once, when it reads."""
        count = 2000
        cluster = self.cluster()
        owner, client, gone = [self.open(cluster[0]) for _ in range(3)]
        target, _, handle = owner.alloc(4096)
        plans = []
        for each in (client, gone):
            region, _, _ = each.alloc(4096)
            plans.append([each.ask(wire.commit([wire.put(region, handle, wire.contiguous(8), b"")], seat=2))[1].get(1, [0])[0]
                          for _ in range(count)])
        owner.ask(wire.blob(wire.REGION_FREE, wire.number(1, target)))
        gone.close()  # while it is to be told
        broken = []
        while len(broken) < count:
            _, kind, body, _ = client.receive()
            self.assertEqual((kind, body[1]), (wire.EVENT, [3]))
            broken += body.get(4, [0])
        self.assertEqual(sorted(broken), sorted(plans[0]))
        client.ask(wire.region_alloc(4096))
        self.assertEqual(client.events, [])
        client.close()
        owner.close()
        until(lambda: cluster[0].counts() == (0, 0, 0), "nothing is left")

    def test_many_orders(self):
        """Pings of a node that does not reply: their number is limited."""
        cluster = self.cluster(2)
        with self.undisturbed(cluster):
            client = self.connect(cluster[0])
            client.ask(wire.hello(admin=True))
            cluster[1].pause()
            for _ in range(17):
                client.send(wire.admin("ping", "node1 1"))
            with self.fails("-EBUSY", "16 pending requests"):
                client.answer()
            cluster[1].resume()
            client.close()

    def test_open_together(self):
        """Hundreds of processes connect before the first of them says hello, beside silent connections of another user."""
        cluster = self.cluster()
        cluster.admit_users()
        stranger = STRANGER if os.geteuid() == 0 else os.geteuid()
        silent = [wire.Client.of_user(stranger, cluster[0].socket) if stranger == STRANGER else self.connect(cluster[0]) for _ in range(200)]
        clients = [self.connect(cluster[0]) for _ in range(500)]
        for client in clients:
            client.send(wire.hello())
        for client in clients:
            kind, _, fds = client.answer()
            self.assertEqual((kind, len(fds)), (wire.WELCOME, 3))
            for fd in fds:
                os.close(fd)
        self.assertEqual(cluster[0].counts()[0], 500)
        for client in silent:  # these, too, may still say it
            self.assertEqual(client.ask(wire.hello(admin=True))[0], wire.WELCOME)
            client.close()

    @unittest.skipIf(os.geteuid() != 0, "needs processes of two users")
    def test_says_nothing(self):
        """Silent connections end after a while; until then their user gets no more than a limit of them, and other users notice nothing."""
        cluster = self.cluster(fresh=True, options={"control.request_timeout": "5s", "limits.sessions_per_user": "100"})
        cluster.admit_users()
        with self.undisturbed(cluster):
            silent = [wire.Client.of_user(STRANGER, cluster[0].socket) for _ in range(100 + 256)]
            with wire.Client.of_user(STRANGER, cluster[0].socket) as client, \
                    self.fails("-EDQUOT", f"user {STRANGER} has 356 connections", "limits.sessions_per_user"):
                client.tag = 1
                client.answer()  # to its first message, whatever that is
            with self.open(cluster[0]) as client:
                client.alloc(4096)
            for client in silent:
                self.assertTrue(client.gone())
                client.close()
        self.assertIn("did not say hello", cluster[0].log_text())

    def test_half_closed(self):
        cluster = self.cluster()
        with self.undisturbed(cluster):
            for how in (socket.SHUT_WR, socket.SHUT_RD, socket.SHUT_RDWR):
                client = self.open(cluster[0])
                client.socket.shutdown(how)
                try:
                    client.send(wire.region_alloc(4096))
                except wire.Gone:
                    pass
                client.close()

    def test_eventfd(self):
        """The client shares the file of its eventfd: makes it blocking, drains it, fills it up."""
        cluster = self.cluster()
        with self.undisturbed(cluster):
            client = self.open(cluster[0])
            segment = Segment(client)
            _, body, _ = client.ask(wire.commit([wire.notify(0, 0)], seat=2))
            plan = body.get(1, [0])[0]
            fd = client.fds[2]
            fcntl.fcntl(fd, fcntl.F_SETFL, 0)
            for number in range(1, 50):
                segment.submit(plan)
                until(lambda: segment.completions() == number, "the start is complete")
            fcntl.fcntl(fd, fcntl.F_SETFL, os.O_NONBLOCK)
            os.write(fd, struct.pack("<Q", (1 << 64) - 2 - struct.unpack("<Q", os.read(fd, 8))[0]))
            client.close()

    def test_impossible_indexes(self):
        cluster = self.cluster(fresh=True)
        with self.undisturbed(cluster):
            for tail in (SUBMIT + 1, 0x80000000, 0xFFFFFFFF):
                client = self.open(cluster[0])
                segment = Segment(client)
                segment.set_tail(tail)
                self.assertTrue(client.gone())
            client = self.open(cluster[0])  # more starts than the completion ring has entries
            segment = Segment(client)
            for number in range(COMPLETE + 1):
                segment.submit(number)
                until(lambda: segment.taken() == number + 1, f"start {number} is taken")
            self.assertTrue(client.gone())
            client.close()
        self.assertIn("completion ring overrun", cluster[0].log_text())
        self.assertIn("impossible index in a submission ring", cluster[0].log_text())

    def test_memory_that_could_be_shortened(self):
        """A region of a process's own memfd: of a length that nobody can change, with pages that exist."""
        cluster = self.cluster()
        at, size = 1 << 30, 8192
        shrink, grow, seal, write, future = 2, 4, 1, 8, 16  # F_SEAL_*

        def memfd(length=at + size, seals=shrink | grow | seal, flags=0):
            fd = os.memfd_create("hostile", os.MFD_ALLOW_SEALING | flags)
            self.addCleanup(os.close, fd)
            os.truncate(fd, length)
            fcntl.fcntl(fd, 1033, seals)  # F_ADD_SEALS
            return fd

        pipe, other_end = os.pipe()
        self.addCleanup(os.close, pipe)
        self.addCleanup(os.close, other_end)
        with self.undisturbed(cluster):
            client = self.open(cluster[0])
            region, _, handle = client.alloc(size)
            ask = wire.region_alloc(size, flags=wire.IN_PLACE, address=at)
            for bad in ([], [pipe], [os.open(__file__, os.O_RDONLY)], [memfd(seals=grow | seal)], [memfd(seals=shrink | grow)], [memfd(at + size - 1)],
                        [memfd(seals=shrink | seal | write)], [memfd(seals=shrink | seal | future)]):
                with self.fails("-EINVAL", "a memfd of at least", "sealed"):
                    client.ask(ask, bad)
            for length, address in ((0, at), (size, 0), (size, at + 1), (100, at), (1 << 63, 4096), ((1 << 64) - 4096, 8192)):
                with self.fails("-EINVAL", "whole pages"):
                    client.ask(wire.region_alloc(length, flags=wire.IN_PLACE, address=address), [memfd()])
            # pages that do not exist would be allocated at the expense of tcad
            empty = memfd()
            _, body, _ = client.ask(ask, [empty])
            put = wire.put(body[1][0], handle, wire.contiguous(8), wire.contiguous(8))
            with self.fails("-EFAULT", "pages of the region's memory are missing"):
                client.ask(wire.commit([put], seat=2))
            os.pwrite(empty, bytes(size), at)
            _, body, _ = client.ask(wire.commit([put], seat=2))
            # and when they vanish, nothing but zeros is put
            ctypes.CDLL(None).fallocate(empty, 3, ctypes.c_long(at), ctypes.c_long(size))
            segment = Segment(client)
            segment.submit(body.get(1, [0])[0])
            until(lambda: segment.completions() == 1, "the start is complete")
            client.close()

    def test_busy_neighbour(self):
        """A client that keeps the engine busy, with plans of the maximal number of steps."""
        cluster = self.cluster()
        with self.undisturbed(cluster) as streams:
            idle_sender, idle_receiver = cluster.group([0, 0], name="idle")
            client = self.open(cluster[0])
            region, _, handle = client.alloc(8 * MIB)
            segment = Segment(client)
            steps = [wire.put(region, handle, wire.contiguous(65536), wire.contiguous(65536), target_offset=4 * MIB)] * 2000
            _, body, _ = client.ask(wire.commit(steps, seat=2))
            plans = [body.get(1, [0])[0]]
            _, body, _ = client.ask(wire.commit([wire.put(region, handle, wire.contiguous(4 * MIB), wire.contiguous(4 * MIB),
                                                          target_offset=4 * MIB)], seat=2, channel=1))
            plans.append(body.get(1, [0])[0])
            late = Stream(idle_sender, idle_receiver, seat="daemon")
            for _ in range(5):
                for channel, plan in enumerate(plans):
                    segment.submit(plan, channel)
                self.assert_moving(cluster[0], streams)
                self.assertEqual(late.run(3), 3)  # whose session was parked
            client.close()
            idle_sender.end()
            idle_receiver.end()

    def test_holes_in_huge_pages(self):
        """A client removes reserved huge pages from its region and uses them up elsewhere: the daemon, which copies there,
        survives."""
        huge, libc = 2 << 20, ctypes.CDLL(None, use_errno=True)
        with open("/proc/meminfo", encoding="ascii") as meminfo:
            info = dict(line.split(":") for line in meminfo)
        free = int(info["HugePages_Free"].split()[0])
        if free < 4 or int(info["Hugepagesize"].split()[0]) << 10 != huge:
            self.skipTest("needs four free huge pages of 2 MiB (vm.nr_hugepages)")
        node = self.cluster(1, options={"memory.huge_pages": "require", "rails.enable": "shm"})[0]
        client = self.open(node)
        region, handle, base = self.made(client, huge)
        self.made(client, (free - 1) * huge)  # nobody else gets one
        plan = client.ask(wire.commit([wire.put(region, handle, wire.contiguous(4096), b"", target_offset=8192), wire.notify(0, 0)],
                                      seat=2))[1].get(1, [0])[0]
        fd = base[1]
        self.assertEqual(libc.fallocate(fd, 3, ctypes.c_long(0), ctypes.c_long(huge)), 0, os.strerror(ctypes.get_errno()))
        thief = self.made(client, huge)  # takes the page
        segment = Segment(client)
        segment.submit(plan)
        until(lambda: self.cut_off(node) > 0, "the region is cut off")
        self.assert_well(node, node.process.pid)
        self.assertEqual(thief[2][0][:8], bytes(8))
        client.close()
        self.open(node).close()

    @staticmethod
    def cut_off(node):
        return node.tcactl("stats", "tcad_regions_cut_off")["families"][0]["samples"][0]["value"]

    @staticmethod
    def made(client, size):
        """A region with pages: (id, handle, (mapping, descriptor))."""
        _, body, fds = client.ask(wire.region_alloc(size))
        base = mmap.mmap(fds[0], size)
        for at in range(0, size, 2 << 20):
            base[at] = 0
        return body[1][0], body[4][0], (base, fds[0])

    def test_scribbles(self):
        cluster = self.cluster()
        with self.undisturbed(cluster) as streams:
            for seed, what in enumerate(("session", "notify", "both") * 2):
                scribbler = subprocess.Popen([program("scribble"), "3", str(seed), what], stdout=subprocess.PIPE,
                                             env={**os.environ, "TCA_SOCKET": cluster[0].socket, "TCA_TIMEOUT": "1s"})
                self.addCleanup(scribbler.stdout.close)
                self.assertEqual(scribbler.stdout.readline(), b"scribbling\n")
                self.assert_well(cluster[0])
                self.assert_moving(cluster[0], streams)
                scribbler.wait(DEADLINE_S)


if __name__ == "__main__":
    main()
