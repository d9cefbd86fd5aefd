#!/usr/bin/env python3
"""Puts between processes of a node, in every copy mode: the data is right, and in order."""

import random

import harness
from lanes import SHARED, WAYS, Way

GUARD = 0xA5
# source and target; "i": individually listed blocks
SHAPES = (("8", "8"), ("24", "3x8x24"), ("1000x8x64", "8000"), ("4096", "512x8x16i"), ("100x40x100", "4x1000x2000"),
          ("65536", "65536"), ("256x256x300", "512x128x-140"), ("3000x100x104i", "1000x300x301"), ("1048579", "1048579"))
LARGE = (("8388608", "8388608"), ("1024x8192x8200", "8192x1024x1032i"))


def lower(shape):
    """How far a shape extends below its base."""
    count, _, stride = (shape.rstrip("i") + "x1x0").split("x")[:3]
    return max(0, -(int(count) - 1) * int(stride)) if "x" in shape else 0


class Shapes(Way):
    def transfer(self, pair, way, shapes, count, region_bytes):
        sender, receiver = pair
        shape, target_shape = shapes
        offset, target_offset = lower(shape) + 64, lower(target_shape) + 128
        source = sender.alloc(region_bytes)
        target = receiver.alloc(region_bytes)
        receiver.ask(f"set {target} 0 {region_bytes} {GUARD}")
        plan = sender.plan(f"put {source} {offset} {shape} {receiver.handle(target)} {target_offset} {target_shape}", "notify 1 0")
        ack = receiver.plan("notify 0 0")
        receiver.tell(f"receive {target} {target_offset} {target_shape} 0 0 {ack} {count}")
        sender.tell(f"send {plan} {source} {offset} {shape} 1 0 {count}")
        self.assertEqual((sender.answer(), receiver.answer()), ([str(count)], [str(count)]))
        receiver.ask(f"guarded {target} {target_offset} {target_shape} {GUARD}")
        if way != "any":
            self.assertEqual(sender.receipt(plan)["way"], way)
        for actor, number in ((sender, plan), (receiver, ack)):
            actor.ask(f"freeplan {number}")
        for actor, number in ((sender, source), (receiver, target)):
            actor.ask(f"free {number}")

    def test_all(self):
        cluster = self.cluster()
        for way in WAYS:
            pair = self.pair(cluster, way, way)
            for shapes in SHAPES:
                with self.subTest(way=way, shapes=shapes):
                    self.transfer(pair, way, shapes, 30, 4 << 20)
            for shapes in LARGE:
                with self.subTest(way=way, shapes=shapes):
                    self.transfer(pair, way, shapes, 3, 16 << 20)

    def test_echo(self):
        """The receiver's own chain puts it back, in either seat, before its process can see it."""
        cluster = self.cluster()
        for way in SHARED:
            for seat in ("daemon", "client"):
                for shape in ("8", "1000x8x64", "300000"):
                    with self.subTest(way=way, seat=seat, shape=shape):
                        sender, receiver = self.pair(cluster, way, f"{way}{seat}{shape}")
                        plan, source, target = self.one_way(sender, receiver, shape)
                        back = sender.alloc(1 << 20)
                        relay = receiver.plan("await 0 0 1", f"put {target} 0 {shape} {sender.handle(back)} 0 {shape}",
                                              "notify 0 1", seat=seat)
                        receiver.tell(f"repeat {relay} 100")
                        sender.ask(f"echo {plan} {source} 0 {shape} 1 1 {back} 0 {shape} 100")
                        self.assertEqual(receiver.answer(), ["100"])

    def test_daemon_takes_over(self):
        """Data in the lane arrives before the daemon may take the notification, and from then on before every one."""
        cluster = self.cluster()
        for way in SHARED:
            for round in range(10):
                with self.subTest(way=way, round=round):
                    sender, receiver = self.pair(cluster, way, f"{way}{round}")
                    plan, source, target = self.one_way(sender, receiver, "100000")
                    back = sender.alloc(1 << 20)
                    sender.ask(f"start {plan}")  # the receiver does not know the lane yet
                    relay = receiver.plan("await 0 0 1", f"put {target} 0 100000 {sender.handle(back)} 0 100000", "notify 0 1",
                                          seat="daemon")
                    receiver.ask(f"start {relay}")
                    sender.ask("notified_wait 1 1 -2")
                    sender.ask(f"check {back} 0 100000 5")
                    receiver.ask(f"freeplan {relay}")  # now it takes notifications itself again
                    sender.ask(f"wait {plan} -2")
                    sender.ask(f"fill {source} 0 100000 6")
                    sender.ask(f"start {plan}")
                    receiver.ask("notified_wait 0 0 -2")
                    receiver.ask(f"check {target} 0 100000 6")

    def test_everybody_with_everybody(self):
        cluster = self.cluster()
        ranks, part = range(8), 1 << 17
        for way, shape in (("pull", "5000x8x24"), ("half", "100000"), ("ring", "1000x100x101i"), ("any", "120000")):
            with self.subTest(way=way):
                actors = cluster.group([0] * len(ranks), name=way, TCA_COPY=way)
                regions = [(actor.alloc(8 * part), actor.alloc(8 * part)) for actor in actors]
                handles = [actor.handle(region[1]) for actor, region in zip(actors, regions)]
                for me, actor in enumerate(actors):
                    steps = {peer: (f"put {regions[me][0]} {peer * part} {shape} {handles[peer]} {me * part} {shape}",
                                    f"notify {peer} 0") for peer in ranks if peer != me}
                    plan = int(actor.ask("plan all any any 0")[0])
                    ack = actor.plan(*[f"notify {peer} 1" for peer in steps])
                    for peer, (put, notify) in steps.items():
                        if peer != next(iter(steps)):
                            actor.ask(f"chain {plan}")
                        for step in (put, notify):
                            verb, *words = step.split(" ")
                            actor.ask(" ".join((verb, str(plan), *words)))
                    actor.ask(f"commit {plan} -2")
                    actor.exchange = f"exchange {plan} {ack} {regions[me][0]} {regions[me][1]} {shape} {part} 20"
                for actor in actors:
                    actor.tell(actor.exchange)
                for actor in actors:
                    self.assertEqual(actor.answer(), ["20"])
                for actor in actors:
                    actor.ask("close")


class Order(Way):
    def test_large_then_small(self):
        """Into the same bytes, by a sender without the receiver's help."""
        cluster = self.cluster()
        for way in SHARED:
            sender, receiver = self.pair(cluster, way, way)
            source = sender.alloc(1 << 20)
            target = receiver.alloc(1 << 20)
            handle = receiver.handle(target)
            sender.ask(f"fill {source} 0 100000 1")
            sender.ask(f"fill {source} 200000 8 2")
            plan = sender.plan(f"put {source} 0 100000 {handle} 0 100000", "notify 1 0",
                               f"put {source} 200000 8 {handle} 0 8", "notify 1 1",
                               f"put {source} 200000 8 {handle} 99992 8")
            for late in (0, 20):
                for round in range(30):
                    with self.subTest(way=way, late=late, round=round):
                        receiver.ask(f"set {target} 0 100000 0")
                        receiver.tell(f"sleep {late}")
                        sender.run(plan)
                        receiver.answer()
                        receiver.ask("notified_wait 0 1 -2")
                        receiver.ask("notified_wait 0 0 -2")
                        receiver.ask(f"check {target} 0 8 2")
                        receiver.ask(f"check {target} 99992 8 2")

    def test_many_starts_before_the_receiver_looks(self):
        cluster = self.cluster()
        for way in WAYS:
            sender, receiver = self.pair(cluster, way, way)
            source = sender.alloc(1 << 21)
            target = receiver.alloc(1 << 21)
            handle = receiver.handle(target)
            sizes = [random.Random(way + str(i)).choice((8, 100, 4096, 20000, 50000)) for i in range(40)]
            plans = []
            for i, size in enumerate(sizes):
                sender.ask(f"fill {source} {i * 50000} {size} {i}")
                plans.append(sender.plan(f"put {source} {i * 50000} {size} {handle} {i * 50000} {size}", f"notify 1 {i % 3}"))
            for round in range(3):
                receiver.ask(f"set {target} 0 {1 << 21} {round}")
                sender.ask(f"starts {plans[0]} {plans[-1]}")
                if round == 2:  # what it leaves behind is known, though its plans are gone
                    sender.ask(f"waits {plans[0]} {plans[-1]} -2")
                    for plan in plans:
                        sender.ask(f"freeplan {plan}")
                for i, size in enumerate(sizes):
                    with self.subTest(way=way, round=round, i=i, size=size):
                        receiver.ask(f"notified_wait 0 {i % 3} -2")
                        receiver.ask(f"check {target} {i * 50000} {size} {i}")
                if round < 2:
                    sender.ask(f"waits {plans[0]} {plans[-1]} -2")

    def test_several_puts_before_one_notification(self):
        """The receiver takes part in all of them, of which only the last one notifies it."""
        cluster = self.cluster()
        starts, shape, size = (0, 8, 64), "200x8x256", 65536
        for way in (*SHARED, "any"):
            sender, receiver = self.pair(cluster, way, way)
            source = sender.alloc(size)
            target = receiver.alloc(size)
            handle = receiver.handle(target)
            plan = sender.plan(*(f"put {source} {at} {shape} {handle} {at} {shape}" for at in starts), "notify 1 0")
            steps = sender.node.tcactl("plan", sender.node.plans()[-1]["id"])["chains"][0]["steps"]
            ways = [step["copy"]["methods"] for step in steps if step["copy"]]
            with self.subTest(way=way):
                self.assertEqual(ways, [ways[0]] * len(starts))
                self.assertNotIn("push", ways[0])
            for round in range(20):
                sender.ask(f"fill {source} 0 {size} {round}")
                receiver.ask(f"fill {target} 0 {size} 99")
                sender.ask(f"start {plan}")
                receiver.ask("notified_wait 0 0 -2")
                sent, = sender.ask(f"read {source} 0 {size}")
                received, = receiver.ask(f"read {target} 0 {size}")
                blocks = [slice(2 * at, 2 * at + 16) for first in starts for at in range(first, first + 200 * 256, 256)]
                with self.subTest(way=way, round=round):
                    self.assertEqual([i for i, block in enumerate(blocks) if sent[block] != received[block]], [])
                sender.ask(f"wait {plan} -2")
            if way != "any":
                self.assertEqual(sender.receipt(plan)["way"], way)  # of the first put, which notifies nobody

    def test_more_puts_than_messages_may_wait(self):
        """The receiver is told that it no longer shares them as fast as it reads, and it is not dropped when it computes."""
        cluster = self.cluster()
        sender, receiver = self.pair(cluster, "ring", "many")
        source = sender.alloc(8 << 20)
        target = receiver.alloc(8 << 20)
        handle = receiver.handle(target)
        puts = [f"put {source} {2048 * i} 32x8x64 {handle} {2048 * i} 32x8x64" for i in range(3000)]
        for _ in range(3):
            receiver.tell("notified_wait 0 2 -2")
            plan = sender.plan(*puts, "notify 1 2")
            sender.run(plan)
            receiver.answer()
            self.assertEqual(sender.receipt(plan)["way"], "ring")
            sender.ask(f"freeplan {plan}")
            receiver.ask("sleep 300")  # outside of the library
        receiver.ask("count 0 2")

    def test_others_are_told_after_the_data(self):
        """A puts to B and notifies C, C puts into the same bytes of B: C's data remains."""
        cluster = self.cluster()
        for way in SHARED:
            a, b, c = cluster.group([0, 0, 0], name=way, TCA_COPY=way)
            source = a.alloc(1 << 20)
            other = c.alloc(1 << 20)
            target = b.alloc(1 << 20)
            handle = b.handle(target)
            a.ask(f"fill {source} 0 60000 1")
            c.ask(f"fill {other} 0 60000 2")
            first = a.plan(f"put {source} 0 60000 {handle} 0 60000", "notify 1 0", "notify 2 0")
            second = c.plan(f"put {other} 0 60000 {handle} 0 60000", "notify 1 0")
            for round in range(20):
                with self.subTest(way=way, round=round):
                    a.ask(f"start {first}")
                    c.ask("notified_wait 0 0 -2")
                    c.ask(f"start {second}")
                    b.ask("notified_wait 2 0 -2")
                    b.ask("notified_wait 0 0 -2")
                    b.ask(f"check {target} 0 60000 2")
                    a.ask(f"wait {first} -2")
                    c.ask(f"wait {second} -2")


if __name__ == "__main__":
    harness.main()
