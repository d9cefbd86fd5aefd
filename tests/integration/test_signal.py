#!/usr/bin/env python3
"""Counters in memory (tca-signal.h), to which several processes add."""

import os
import random
import secrets
import sys

import graphs
import harness

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "hostile"))
import wire  # noqa: E402  pylint: disable=wrong-import-position

SEED = int(os.environ.get("TCA_TEST_SEED", secrets.randbits(32)))
EQ, NE, GT, GE, LT, LE = range(1, 7)
COUNT = 30


class Graph(graphs.Graph):
    """Edges are signals, all of a vertex to one counter, behind the cells: it waits until as much has been added as its predecessors add."""

    def __init__(self, dice, actors, size, seats):
        super().__init__(dice, actors, size, seats, graphs.CELL + 8)

    def connect(self, earlier, later):
        return self.dice.choice([1, 1, 2, 1 << 40])

    def counter(self, vertex):
        return graphs.CELL * self.size + 8 * vertex

    def waits(self, vertex):
        added = sum(self.edges[earlier, vertex] for earlier in self.before(vertex))
        return [f"take {self.regions[self.ranks[vertex]]} {self.counter(vertex)} {added}"] if added else []

    def tells(self, vertex, later):
        return f"signal {self.handles[self.ranks[later]]} {self.counter(later)} {self.edges[vertex, later]}"

    def wait_for_all(self):
        """In an order in which each can be complete, whoever runs it."""
        first = {rank: self.ranks.index(rank) for rank in set(self.ranks)}
        for vertex in range(self.size):
            for other in set(first) - {self.ranks[vertex]}:
                self.actors[other].ask(f"test {self.plans[first[other]]}")  # advances what that process runs
            self.ask(vertex, f"wait {self.plans[vertex]} -2")

    def run(self, case, seed, what):
        """All was taken from the counters, too."""
        super().run(case, seed, what)
        for vertex in range(self.size):
            case.assertEqual(self.ask(vertex, f"counter {self.regions[self.ranks[vertex]]} {self.counter(vertex)} {EQ} 0"), ["1"])


class Signal(harness.Case):
    RAILS = "shm tcp ofi"

    def holds(self, actor, region, compare, value, offset=0):
        return actor.ask(f"counter {region} {offset} {compare} {value}") == ["1"]

    def collect(self, actors, size, seat, rail, *more, elsewhere=False, how="collect"):
        """more: steps behind the signals; how: "watch", by the processor alone; elsewhere: the data goes to another process of the receiver's node."""
        receiver, *senders = actors
        target = receiver.alloc(8 + size * len(senders))
        handle = data = receiver.handle(target)
        blocks = ""
        if elsewhere:
            neighbour = senders.pop(0)
            data = neighbour.handle(neighbour.alloc(8 + size * len(senders)))
            blocks = int(receiver.ask(f"reach {data}")[0], 0) + 8
        for number, sender in enumerate(senders):
            source = sender.alloc(size)
            plan = sender.plan(f"put {source} 0 {size} {data} {8 + size * number} {size}", f"signal {handle} 0 {1 << 16 * number}", *more,
                               seat=seat, rail=rail)
            sender.tell(f"emit {plan} {source} 0 {size} {COUNT}")
        receiver.ask(f"{how} {target} 0 {size} {len(senders)} {COUNT} {blocks}".strip())
        for sender in senders:
            sender.answer()
        self.assertTrue(self.holds(receiver, target, EQ, sum(COUNT << 16 * number for number in range(len(senders)))))

    def test_several_senders(self):
        """Data comes before its signal, and each signal counts once, wherever the senders are."""
        for places, rails in (([0, 0, 0, 0, 0], ["any"]), ([0, 1, 2, 1], ["tcp", "ofi"]), ([0, 0, 1, 2], ["any"])):
            actors = self.cluster(1 + max(places)).group(places)
            for seat in ("client", "daemon", "any"):
                for rail in rails if seat != "client" or 0 in places[1:] else ["tcp"]:
                    for size in (16, 5000, 300000):
                        with self.subTest(places=places, seat=seat, rail=rail, size=size):
                            self.collect(actors, size, "any" if seat == "client" and rail == "any" and max(places) else seat, rail)

    def test_memory_of_a_neighbour(self):
        """Data for one process, and the signal for another of its node."""
        for places in ([0, 0, 0, 0], [1, 1, 0, 2]):
            actors = self.cluster(1 + max(places)).group(places)
            for seat in ("any", "daemon"):
                for size in (16, 300000, 5000000):  # the last one is copied in calls after the start
                    with self.subTest(places=places, seat=seat, size=size):
                        self.collect(actors, size, seat, "any", elsewhere=True)

    def test_by_the_processor(self):
        """Whoever reads the counter need not call the library, as one must that helps to copy before it takes a notification."""
        actors = self.cluster(1).group([0, 0, 0], TCA_COPY="half")
        for size in (5000, 300000, 3000000):
            with self.subTest(size=size):
                self.collect(actors, size, "client", "any", "notify 0 0", how="watch")

    def test_graphs(self):
        for places, seats in (([0, 0, 0], ["daemon"]), ([0, 1, 2, 0], ["daemon", "any"])):
            for _ in range(harness.rounds(1)):
                dice = random.Random(f"{SEED}.{places}")
                graph = Graph(dice, self.cluster(1 + max(places)).group(places), 50, seats)
                for seed in range(3):
                    graph.run(self, seed, f"seed {SEED}")

    def test_waits_of_plans(self):
        """Each start takes as much, in the order of the starts, and the processor can add, too."""
        for seat in ("daemon", "client"):
            with self.subTest(seat=seat):
                waiter, adder = self.cluster(1).group([0, 0])
                region = waiter.alloc(64)
                adds = adder.plan(f"signal {waiter.handle(region)} 8 3")
                takes = [waiter.plan(f"take {region} 8 {4 if i else 6}", seat=seat, channel=i) for i in range(3)]
                for plan in takes if seat == "daemon" else takes[:1]:
                    waiter.ask(f"start {plan}")
                    if seat == "daemon":
                        harness.until(lambda plan=plan: any(entry["running"] for entry in waiter.node.plans()
                                                            if entry["id"].endswith(f".{plan}")), "the engine has it")
                adder.run(adds)
                self.assertEqual(waiter.ask(f"test {takes[0]}"), ["0"])
                adder.run(adds)
                waiter.ask(f"wait {takes[0]} -2")
                self.assertTrue(self.holds(waiter, region, EQ, 0, 8))
                if seat == "client":
                    continue
                self.assertEqual(waiter.ask(f"test {takes[1]}"), ["0"])
                waiter.ask(f"add {region} 8 5")
                adder.run(adds)
                for plan in takes[1:]:
                    waiter.ask(f"wait {plan} -2")
                self.assertTrue(self.holds(waiter, region, EQ, 0, 8))
                waiter.ask(f"start {takes[0]}")
                waiter.ask(f"cancel {takes[0]}")
                with self.refused("-ECANCELED"):
                    waiter.ask(f"wait {takes[0]} -2")

    def test_comparisons(self):
        actor, other = self.cluster(1).group([0, 0])
        region = actor.alloc(64)
        adds = other.plan(f"signal {actor.handle(region)} 16 {(1 << 63) + 5}")
        other.run(adds)
        value = (1 << 63) + 5
        actor.ask(f"until {region} 16 {EQ} {value} -2")
        for compare, of in ((EQ, [0, 1, 0]), (NE, [1, 0, 1]), (GT, [1, 0, 0]), (GE, [1, 1, 0]), (LT, [0, 0, 1]), (LE, [0, 1, 1])):
            self.assertEqual([self.holds(actor, region, compare, value + more, 16) for more in (-1, 0, 1)], [bool(one) for one in of])
        other.run(adds)  # wraps around
        actor.ask(f"until {region} 16 {EQ} 10 -2")
        self.assertTrue(self.holds(actor, region, EQ, 0, 8) and self.holds(actor, region, EQ, 0, 24))
        with self.refused("-ETIMEDOUT"):
            actor.ask(f"until {region} 16 {GT} 10 0")

    def test_ends(self):
        """Of adders, of the owner, and of its memory."""
        for places in ([0, 0, 0], [0, 1, 2]):
            with self.subTest(places=places):
                cluster = self.cluster(1 + max(places))
                owner, *adders = cluster.group(places)
                region, other = owner.alloc(64), owner.alloc(64)
                plans = [adder.plan(f"signal {owner.handle(region)} 0 1") for adder in adders]
                stale = adders[1].plan(f"signal {owner.handle(other)} 0 1")
                adders[1].run(stale)
                owner.ask(f"until {other} 0 {EQ} 1 -2")
                takes = owner.plan(f"take {other} 0 1", seat="daemon")
                with self.refused("-EBUSY"):
                    owner.ask(f"free {other}")
                owner.ask(f"freeplan {takes}")
                owner.ask(f"free {other}")
                with self.refused("-ESTALE"):
                    for _ in range(100):
                        adders[1].run(stale)
                adders[0].kill()
                with self.refused("-ETIMEDOUT"):
                    owner.ask(f"until {region} 0 {GE} 1 300")
                adders[1].run(plans[1])
                owner.ask(f"until {region} 0 {GE} 1 -2")
                adders[1].kill()
                with self.refused("-EOWNERDEAD"):
                    owner.ask(f"until {region} 0 {GE} 2 -2")
                owner.ask(f"until {region} 0 {GE} 1 -2")
                owner, adder = cluster.group(places[:2], name="second")
                region = owner.alloc(64)
                plan = adder.plan(f"signal {owner.handle(region)} 0 1")
                adder.run(plan)
                owner.kill()
                with self.refused("-EOWNERDEAD"):
                    for _ in range(1000):
                        adder.run(plan)

    def test_wrong_counters(self):
        owner, here, there = self.cluster(2).group([0, 0, 1])
        region = owner.alloc(64)
        handle, part = owner.handle(region), owner.handle(region, 8, 16)
        for adder in (here, there):
            for seat in ("any", "daemon"):
                with self.refused("-EINVAL"):
                    adder.plan(f"signal {handle} 4 1", seat=seat)
            for of, offset in ((handle, 4096), (handle, 1 << 63), (part, 16), (part, 12), (handle, (1 << 64) - 8)):
                with self.refused("-EINVAL"):
                    adder.plan(f"signal {of} {offset} 1")
            with self.refused("-EINVAL"):
                adder.plan(f"signal {handle} 0 0")
            adder.run(adder.plan(f"signal {part} 8 1"))
        owner.ask(f"until {region} 16 {EQ} 2 -2")
        with self.refused("-EINVAL"):
            owner.plan(f"take {region} 4 1")
        with self.refused("-EINVAL"):
            owner.plan(f"take {region} 0 0")
        with self.refused("-EINVAL"):
            owner.ask(f"until {region} 4 {EQ} 0 0")
        with self.refused("-EINVAL"):
            owner.ask(f"until {region} 0 7 0 0")

    def test_hostile_requests(self):
        node = self.cluster(1)[0]
        clients = [wire.Client(node.socket).open() for _ in range(2)]
        region, _, handle = clients[0].alloc(4096)
        forged = handle[:-1] + bytes([handle[-1] ^ 1])
        for seat in (1, 2):
            for step in (wire.signal(handle, 4090, 1), wire.signal(handle, 3, 1), wire.signal(handle, (1 << 64) - 4, 1),
                         wire.signal(handle, 0, 0), wire.signal(b"", 0, 1), wire.signal(forged, 0, 1), wire.wait_signal(region, 0, 1),
                         wire.wait_signal(0, 0, 1)):
                with self.assertRaises(wire.Failure):
                    clients[1].ask(wire.commit([step], seat=seat))
            for step in (wire.wait_signal(region, 4, 1), wire.wait_signal(region, 4092, 1), wire.wait_signal(region, (1 << 64) - 8, 1),
                         wire.wait_signal(region, 0, 0)):
                with self.assertRaises(wire.Failure):
                    clients[0].ask(wire.commit([step], seat=seat))
        for client in clients:
            client.close()


if __name__ == "__main__":
    harness.main()
