#!/usr/bin/env python3
"""PEACH2 boards in trouble: a ring that is cut in two, flapping cables, overwritten descriptors. Also the choice of the rail
when the route over the boards is long."""

import mmap
import os
import signal
import struct
import subprocess
import tempfile
import time

import harness
from boards import COSTS, DEAR_BOARDS, Boards, Ring
from harness import Stream, until

DESCRIPTORS = 1024
DESCRIPTOR = struct.Struct("<QQIIiiIIQQQ")  # drivers/peach2/registers.h, struct peach2_descriptor


class InternalMemory:
    """The descriptors of a board, as seen by a process that can write to its BAR 0: 64 KiB, and 64 KiB more behind them."""

    def __init__(self, board):
        fds = f"/proc/{board.pid}/fd"
        bar0, = (f"{fds}/{fd}" for fd in os.listdir(fds) if "peach2-bar0" in os.readlink(f"{fds}/{fd}"))
        with open(bar0, "r+b") as file:
            self.memory = mmap.mmap(file.fileno(), 0)
        self.at = len(self.memory) - (128 << 10)

    def used(self):
        """Slots with descriptors that move data."""
        return [slot for slot in range(DESCRIPTORS) if self.read(slot)["length"] > 0]

    NAMES = ("source", "destination", "length", "block", "source_gap", "destination_gap", "flags", "reserved", "next", "first", "second")

    def read(self, slot):
        return dict(zip(self.NAMES, DESCRIPTOR.unpack_from(self.memory, self.at + slot * DESCRIPTOR.size)))

    def write(self, slot, **values):
        DESCRIPTOR.pack_into(self.memory, self.at + slot * DESCRIPTOR.size, *{**self.read(slot), **values}.values())


class Overwritten(Boards):
    def test_descriptors(self):
        """Internal memory is overwritten under a plan: its start fails, others continue, and the next start succeeds."""
        cluster = self.ring(2)
        sender, receiver = cluster.group([0, 1])
        stream = Stream(*cluster.group([1, 0], name="back"), rail="peach2")
        bytes_ = str(3 << 20)  # three descriptors: more than the hardware's 1 MiB
        plan, target = self.plan(sender, receiver, 1, rail="peach2", shape=bytes_)
        other, other_target = self.plan(sender, receiver, 1, rail="peach2", slot=1)
        stream.begin()
        self.start(sender, plan)
        self.arrived(receiver, 0, target, bytes_)
        memory = InternalMemory(cluster.boards[0])
        chain = memory.used()
        self.assertEqual(len(chain), 3)
        self.assertEqual(cluster.fabric(cluster[0])["faults"], [])
        for what, why in (({"flags": 0, "next": chain[0], "length": 0, "block": 0}, "a chain of descriptors is too long or has a loop"),
                          ({"flags": 0, "next": chain[0]}, "a chain of descriptors is too long or has a loop"),
                          ({"source": 0}, "a descriptor's source is not mapped for the board"),
                          ({"destination": 0}, "no route leads to a descriptor's destination"),
                          ({"flags": 1 << 9}, "a descriptor has unknown flags"),
                          ({"source": memory.read(chain[0])["source"] + 4}, "a descriptor's addresses, lengths or gaps are not aligned"),
                          ({"length": 1 << 21}, "a descriptor's length exceeds 1 MiB or is not a multiple of its block"),
                          ({"flags": 0, "next": DESCRIPTORS}, "a descriptor's address is not a slot, or not memory mapped for the board")):
            with self.subTest(what):
                for slot in chain:
                    memory.write(slot, **what)
                with self.refused("-EIO", "this node's board (number 0 of its sub-cluster) has stopped its channel", why):
                    self.start(sender, plan)
                self.assertIn(why, "".join(fault["text"] for fault in cluster.fabric(cluster[0])["faults"]))
                self.start(sender, other)
                self.arrived(receiver, 0, other_target, slot=1)
                self.assertEqual(self.start(sender, plan)["rail"], "peach2")
                self.arrived(receiver, 0, target, bytes_)
        self.assertGreater(stream.finish(), 0)
        self.assertEqual(sum(fault["count"] for fault in cluster.fabric(cluster[0])["faults"]), 8)
        self.assertEqual(cluster.fabric(cluster[1])["faults"], [], "its own board has not complained")
        memory.write(chain[0], destination=1 << 56 | 1 << 40)  # node 1's bus address 0
        self.start(sender, plan)
        astray, = until(lambda: cluster.fabric(cluster[1])["faults"], "node1's board complains")
        self.assertEqual(astray["text"], "packets discarded because their destination was not mapped")


class CutInTwo(Boards):
    def test_halves(self):
        """Two cables out: within the halves, traffic over the boards continues; between them, plans move, or fail without
        another rail."""
        cluster = self.ring(4)
        inside = [Stream(*cluster.group(pair, name=f"in{pair[0]}"), rail="peach2") for pair in ((1, 2), (3, 0))]
        sender, near, far = cluster.group([0, 1, 3])
        free, free_target = self.plan(sender, near, 1)
        bound, _ = self.plan(sender, near, 1, rail="peach2", slot=1)
        home, home_target = self.plan(sender, far, 2, slot=2)
        for plan in (free, bound, home):
            self.assertEqual(self.start(sender, plan)["rail"], "peach2")
        self.arrived(near, 0, free_target)
        self.arrived(far, 0, home_target, slot=2)
        for stream in inside:
            stream.begin()
        cluster.hand("unplug", 0, "E")
        cluster.hand("unplug", 2, "E")
        for node, others in ((0, {1, 2}), (1, {0, 3}), (2, {0, 3}), (3, {1, 2})):
            cluster.wait_cut_off(cluster[node], others)
        with self.refused("-ENETDOWN"):
            self.start(sender, bound)
        self.assertEqual(self.start(sender, free)["rail"], "ofi")
        self.arrived(near, 0, free_target)
        self.assertEqual(self.start(sender, home)["rail"], "peach2")
        self.arrived(far, 0, home_target, slot=2)
        cluster.hand("plug", 0, "E")
        cluster.hand("plug", 2, "E")
        for node in cluster.nodes:
            cluster.wait_cut_off(node, set())
        for stream in inside:
            self.assertGreater(stream.finish(), 0)
            self.assertEqual(stream.sender.receipt(stream.plan)["rail"], "peach2")
        again, again_target = self.plan(sender, near, 1, slot=3)
        self.assertEqual(self.start(sender, again)["rail"], "peach2")
        self.arrived(near, 0, again_target, slot=3)


class Flapping(Boards):
    def test_cable(self):
        """Out for 50 ms, in for 50 ms, for seconds, with puts to, from and through both boards: all arrive, once, over the
        boards."""
        cluster = self.ring(4)
        streams = [Stream(*cluster.group(pair, name=f"job{pair[0]}"), rail="peach2", shape="100x40x100", target_shape="4000")
                   for pair in ((0, 1), (1, 0), (3, 1), (2, 3))]
        for stream in streams:
            stream.begin()
        for _ in range(30):
            cluster.hand("unplug", 0, "E")
            time.sleep(0.05)
            cluster.hand("plug", 0, "E")
            time.sleep(0.05)
        for node in cluster.nodes:
            cluster.wait_cables(node, set())
        for stream in streams:
            self.assertGreater(stream.finish(), 0)
            self.assertEqual(stream.sender.receipt(stream.plan)["rail"], "peach2")


class StuckNeighbour(Boards):
    def setUp(self):
        super().setUp()
        self.ring_of_two = self.ring(2)
        self.sender, self.receiver = self.ring_of_two.group([0, 1])
        self.over_ofi, self.target = self.plan(self.sender, self.receiver, 1, rail="ofi")
        self.ring_of_two.boards[1].send_signal(signal.SIGSTOP)
        self.calibrating = subprocess.Popen([harness.program("tcactl"), "--json", "--timeout", "300", "calibrate"],
                                            env={**os.environ, "TCA_SOCKET": self.ring_of_two[0].socket}, stdout=subprocess.DEVNULL)
        self.addCleanup(self.calibrating.wait)

    def goes_on(self):
        self.start(self.sender, self.over_ofi)
        self.arrived(self.receiver, 0, self.target)
        time.sleep(0.05)

    def test_calibrate(self):
        """The neighbour that the boards are measured with is stuck: starts over other rails, and commits, continue meanwhile."""
        for slot in range(1, 41):  # it takes some seconds to reach the boards
            self.goes_on()
            another, another_target = self.plan(self.sender, self.receiver, 1, rail="ofi", slot=slot)
            self.start(self.sender, another)
            self.arrived(self.receiver, 0, another_target, slot=slot)
            self.sender.ask(f"freeplan {another}")
        self.assertIsNone(self.calibrating.poll(), "it waits for the neighbour")
        self.ring_of_two.boards[1].send_signal(signal.SIGCONT)
        self.assertEqual(self.calibrating.wait(harness.DEADLINE_S), 0)

    def test_end(self):
        """A daemon that is asked to end meanwhile does so."""
        for _ in range(40):
            self.goes_on()
        self.assertIsNone(self.ring_of_two[0].end())
        self.assertNotEqual(self.calibrating.wait(harness.DEADLINE_S), 0)


class Far(Boards):
    def candidates(self, node, number):
        """The candidates of the plan with that number: rail -> candidate."""
        plan, = (plan["id"] for plan in node.plans() if plan["id"].endswith(f".{number}"))
        chain, = node.tcactl("plan", "explain", plan)["chains"]
        return {candidate["driver"]: candidate for candidate in chain["candidates"] if candidate["seat"] == "daemon"}

    def test_hops(self):
        """Every board on the route costs: the rail that is best to a neighbour is not chosen where the route is, or becomes,
        long."""
        with tempfile.NamedTemporaryFile("w", suffix=".cost") as costs:
            costs.write(COSTS)
            costs.flush()
            cluster = self.ring(6, rails__calibration_file=costs.name)
            sender, *receivers = cluster.group(range(6))

            def check(rank, slot, hops, rail):
                plan, target = self.plan(sender, receivers[rank - 1], rank, slot=slot)
                found = self.candidates(cluster[0], plan)
                self.assertEqual((found["peach2"]["hops"], found["ofi"]["hops"]), (hops, 0))
                self.assertEqual(found["peach2"]["predicted_ns"] - found["ofi"]["predicted_ns"], (hops - 1) * 3000 - 5000)
                self.assertEqual(self.start(sender, plan)["rail"], rail)
                self.arrived(receivers[rank - 1], 0, target, slot=slot)

            for rank, hops, rail in ((1, 1, "peach2"), (2, 2, "peach2"), (3, 3, "ofi"), (4, 2, "peach2"), (5, 1, "peach2")):
                check(rank, 0, hops, rail)
            cluster.hand("unplug", 0, "E")
            for node in cluster.nodes:
                cluster.wait_cables(node, {(0, "E")})
            for rank, hops, rail in ((1, 5, "ofi"), (3, 3, "ofi"), (4, 2, "peach2"), (5, 1, "peach2")):
                check(rank, 1, hops, rail)

    def test_preference(self):
        """A preferred rail is used although another one is cheaper, left when it does not reach the node, and used again."""
        with tempfile.NamedTemporaryFile("w", suffix=".cost") as costs:
            costs.write(DEAR_BOARDS)
            costs.flush()
            cluster = self.ring(2, rails__calibration_file=costs.name, rails__return_after="1s")
            sender, receiver = cluster.group([0, 1])
            cheap, _ = self.plan(sender, receiver, 1)
            wish, target = self.plan(sender, receiver, 1, rail="peach2", prefer=True, slot=1)
            demand, _ = self.plan(sender, receiver, 1, rail="peach2", slot=2)
            near, _ = self.plan(sender, sender, 0, rail="peach2", prefer=True)
            self.assertEqual([self.start(sender, plan)["rail"] for plan in (cheap, wish, demand, near)],
                             ["ofi", "peach2", "peach2", "shm"])
            found = self.candidates(cluster[0], wish)
            self.assertIn("preferred", found["peach2"]["why"])
            self.assertIn("lower predicted cost", found["ofi"]["why"])
            self.arrived(receiver, 0, target, slot=1)

            cluster.hand("unplug", 0, "E", "W")
            cluster.wait_cut_off(cluster[0], {1})
            late, late_target = self.plan(sender, receiver, 1, rail="peach2", prefer=True, slot=3)
            self.assertEqual(self.start(sender, late)["rail"], "ofi")
            self.arrived(receiver, 0, late_target, slot=3)
            cluster.hand("plug", 0, "E", "W")
            harness.until(lambda: self.start(sender, late)["rail"] == "peach2", "it has gone back")


class Refused(Boards):
    def test_connection(self):
        """A node's cluster file lacks one node, so its board does not use the third one's address: commits use another rail."""
        with tempfile.NamedTemporaryFile("w", suffix=".cost") as costs, tempfile.NamedTemporaryFile("w", suffix=".conf") as cluster_file:
            costs.write(COSTS)
            costs.flush()
            cluster = Ring(3, {"rails.calibration_file": costs.name})
            self.addCleanup(self.take_down, cluster)
            with open(cluster.file, encoding="ascii") as complete:
                cluster_file.writelines(line for line in complete if not line.startswith("node1 "))
            cluster_file.flush()
            cluster[0].options = {**cluster[0].options, "node.cluster_file": cluster_file.name}
            cluster[0].configure()
            cluster.up()
            sender, receiver = cluster.group([0, 2])
            for slot, wishes in enumerate(({}, {"rail": "peach2", "prefer": True})):
                plan, target = self.plan(sender, receiver, 1, slot=slot, **wishes)
                self.assertEqual(self.start(sender, plan)["rail"], "ofi")
                self.arrived(receiver, 0, target, slot=slot)
            with self.refused("-ENETUNREACH", "rail peach2:0 to node 2: Network is unreachable"):
                self.plan(sender, receiver, 1, rail="peach2")


if __name__ == "__main__":
    harness.main()
