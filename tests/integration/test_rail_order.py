#!/usr/bin/env python3
"""Starts of one channel arrive at a node in their order, over whichever rails: of plans that are on different ones, and of plans that
move while rails are lost and come back."""

import contextlib
import random
import socket
import time

import harness
from actors import Failed
from connections import connections_of, cut_off, rail_port, stalled
from harness import until

COPIED = 1 << 15  # a put of this size completes before it has arrived
LONG = 1 << 16  # a lost rail breaks no plan with puts of this size
PIECES = 4
ONE, OTHER = "tcp:lo", "tcp:b"
TWO_OF_TCP = {"rails.enable": "shm tcp", "rails.tcp_security": "plain", f"rail {OTHER}.driver": "tcp", f"rail {OTHER}.plane": "b",
              f"rail {OTHER}.security": "plain", "rails.return_after": "200ms"}
OFI_AND_TCP = {"rails.enable": "shm tcp ofi", "rails.ofi_unprotected": "yes", "rails.tcp_security": "plain", "rails.return_after": "200ms"}
SO_MAX_PACING_RATE = 47
SLOW_BYTES_PER_S = 5_000_000


class Writer:
    """Plans of one channel that put to the same memory of one receiver, each a number of its own to all of it."""

    def __init__(self, pair, wishes, slot=0, piece=COPIED):
        self.sender, self.receiver = pair
        self.slot, self.size, self.count, self.started = slot, PIECES * piece, 0, 0
        self.target = self.receiver.alloc(self.size)
        self.sources = [self.sender.alloc(self.size) for _ in wishes]
        handle = self.receiver.handle(self.target)
        self.plans = [self.sender.plan(*(f"put {source} {at} {piece} {handle} {at} {piece}" for at in range(0, self.size, piece)),
                                       f"notify 1 {slot}", name=f"plan{i}", seat="daemon", **wish)
                      for i, (source, wish) in enumerate(zip(self.sources, wishes))]

    def start(self, *plans):
        for which in plans:
            self.count += 1
            self.sender.ask(f"fill {self.sources[which]} 0 {self.size} {self.count % 250}")
        for which in plans:
            self.sender.ask(f"start {self.plans[which]}")
            self.started += 1

    def wait(self, which):
        self.sender.ask(f"wait {self.plans[which]} -1")

    def run(self, *plans):
        """One after the other."""
        for which in plans:
            self.start(which)
            self.wait(which)

    def check(self):
        """The last one is there last."""
        while self.started:
            self.started -= 1
            self.receiver.ask(f"notified_wait 0 {self.slot} -1")
        self.receiver.ask(f"check {self.target} 0 {self.size} {self.count % 250}")

    def rails(self):
        return [self.sender.receipt(plan)["name"] for plan in self.plans]

    def free(self):
        for plan in self.plans:
            self.sender.ask(f"freeplan {plan}")


class RailOrder(harness.Case):
    def two(self, options):
        cluster = self.cluster(2, options=options)
        return cluster, cluster.group([0, 1])

    def check_overtaking(self, options):
        """The data of a start that is complete is on its way over one rail when another plan starts on the other one."""
        cluster, pair = self.two(options)
        rails = [rail["rail"] for rail in cluster[0].tcactl("status")["rails"] if rail["driver"] != "shm" and rail["state"] == "up"]
        for first, second in (rails, rails[::-1]):
            with self.subTest(first=first):
                writer = Writer(pair, [{"rail": first}, {"rail": second}])
                writer.run(0, 1)  # connects
                writer.check()
                with stalled(cluster[1], first):
                    writer.start(0)
                    writer.start(1)
                    time.sleep(0.2)  # in which the second one could arrive
                writer.wait(0)
                writer.wait(1)
                writer.check()
                self.assertEqual(writer.rails(), [first, second])
                writer.free()

    def test_tcp(self):
        self.check_overtaking(TWO_OF_TCP)

    def test_tcp_and_ofi(self):
        self.check_overtaking(OFI_AND_TCP)

    def test_a_plan_that_is_gone(self):
        """What it has put over the other rail still arrives first."""
        cluster, pair = self.two(TWO_OF_TCP)
        writer = Writer(pair, [{"rail": OTHER}, {"rail": ONE}])
        writer.run(0, 1)
        writer.check()
        with stalled(cluster[1], OTHER):
            writer.run(0)
            pair[0].ask(f"freeplan {writer.plans[0]}")
            writer.start(1)
            time.sleep(0.2)
        writer.wait(1)
        writer.check()

    def test_a_plan_that_is_new(self):
        """The first one on another rail starts behind what was put before it was there."""
        cluster, pair = self.two(TWO_OF_TCP)
        writer = Writer(pair, [{"rail": OTHER}])
        writer.run(0)
        writer.check()
        source, handle = pair[0].alloc(writer.size), pair[1].handle(writer.target)
        pair[0].ask(f"fill {source} 0 {writer.size} 3")
        with stalled(cluster[1], OTHER):
            writer.run(0)
            plan = pair[0].plan(f"put {source} 0 {COPIED} {handle} 0 {COPIED}", "notify 1 0", rail=ONE, seat="daemon")
            pair[0].ask(f"start {plan}")
            time.sleep(0.2)
        pair[0].ask(f"wait {plan} -1")
        for _ in range(2):
            pair[1].ask("notified_wait 0 0 -1")
        pair[1].ask(f"check {writer.target} 0 {COPIED} 3")

    def test_others_go_on(self):
        """Those of another channel, and those that share the rails with others."""
        cluster, pair = self.two(TWO_OF_TCP)
        writer = Writer(pair, [{"rail": OTHER}, {"rail": ONE}])
        others = [Writer(pair, [{"rail": ONE, "channel": 1}], slot=1), Writer(pair, [{"rail": ONE, "together": 7}], slot=2)]
        writer.run(0, 1)
        writer.check()
        with stalled(cluster[1], OTHER):
            writer.run(0)
            others[1].run(0)
            others[1].check()
            writer.start(1)
            others[0].run(0)
            others[0].check()
        writer.wait(1)
        writer.check()

    def test_a_process_ends_whose_start_waits(self):
        """It is killed while the data of an earlier start does not arrive."""
        cluster, pair = self.two(TWO_OF_TCP)
        writer = Writer(pair, [{"rail": OTHER}, {"rail": ONE}])
        writer.run(0, 1)
        writer.check()
        with stalled(cluster[1], OTHER):
            writer.run(0)
            writer.start(1)
            pair[0].kill()
            until(lambda: all(plan["state"] == "releasing" for plan in cluster[0].plans()), "tcad has heard of it")
        until(lambda: not cluster[0].plans(), "its plans are gone")

    def slow_down(self, cluster, pair, rail):
        sender, receiver = pair
        source, target = sender.alloc(64), receiver.alloc(64)
        sender.run(sender.plan(f"put {source} 0 64 {receiver.handle(target)} 0 64", rail=rail, seat="daemon", landed=True), -1)
        ports = {rail_port(node, rail) for node in cluster.nodes}
        for node in cluster.nodes:
            for connection in connections_of(node, ports):
                connection.setsockopt(socket.SOL_SOCKET, SO_MAX_PACING_RATE, SLOW_BYTES_PER_S)

    @staticmethod
    def some_starts(writer, chance):
        for _ in range(chance.randrange(1, 4)):
            order = chance.sample(range(len(writer.plans)), len(writer.plans))
            writer.start(*order)
            for which in order:
                writer.wait(which)
            writer.check()

    def check_moves(self, options, slow, fast):
        """Two plans prefer a rail that is lost and comes back. Without it, they go on over the other one, where a third one stays, and
        which is slow."""
        cluster, pair = self.two(options)
        self.slow_down(cluster, pair, slow)
        writer = Writer(pair, [{"rail": fast, "prefer": True}] * 2 + [{"rail": slow}], piece=LONG)
        source, target = (actor.alloc(64) for actor in pair)
        last = pair[0].plan(f"put {source} 0 64 {pair[1].handle(target)} 0 64", rail=slow, seat="daemon", landed=True)
        chance = random.Random(7)

        def moved():
            with contextlib.suppress(Failed):  # with the rail
                self.some_starts(writer, chance)
                return writer.rails() == [slow] * 3
            for which in range(3):
                with contextlib.suppress(Failed):
                    writer.wait(which)
            with contextlib.suppress(Failed):
                writer.run(0, 1, 2)
                pair[0].run(last, -1)  # behind all that has arrived
                while pair[1].ask("count 0 0") != ["0"]:
                    pair[1].ask("notified_wait 0 0 -1")
                writer.started = 0
            return False

        def returned():
            self.some_starts(writer, chance)
            return writer.rails() == [fast, fast, slow]

        for _ in range(harness.rounds(3)):
            self.some_starts(writer, chance)
            with cut_off(cluster.nodes, fast):
                until(moved, "all are on the other rail")
            until(returned, "both are back")

    def test_moves_of_tcp(self):
        self.check_moves(TWO_OF_TCP, ONE, OTHER)

    def test_moves_between_drivers(self):
        cluster = self.cluster(2, options=OFI_AND_TCP)
        names = {rail["driver"]: rail["rail"] for rail in cluster[0].tcactl("status")["rails"] if rail["state"] == "up"}
        self.check_moves(OFI_AND_TCP, names["tcp"], names["ofi"])


if __name__ == "__main__":
    harness.main()
