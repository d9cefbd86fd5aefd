#!/usr/bin/env python3
"""Memory that a process had before (tca_region_attach()): the same puts, the same results, over every seat."""

import os
import time
import unittest

import harness
from actors import Container
from harness import Failed, Stream, until

SHAPES = [("1", "1"), ("8", "8"), ("65536", "65536"), ("64x32x128", "2048"), ("2048", "64x32x128"), ("100x8x4096", "50x16x64"),
          ("1000x1x3", "1x1000x0"), ("700001", "700001")]


PLACES = (([0, 0], "client"), ([0, 0], "daemon"), ([0, 1], "client"), ([0, 1], "daemon"))


def check_every_side(case, sender, receiver, seat="any"):
    for attached in ((True, False), (False, True), (True, True)):
        for shape, target_shape in SHAPES:
            with case.subTest(seat=seat, attached=attached, shape=shape, target_shape=target_shape):
                stream = Stream(sender, receiver, shape=shape, target_shape=target_shape, attached=attached, seat=seat)
                case.assertEqual(stream.run(5), 5)
                sender.ask(f"freeplan {stream.plan}")
                sender.ask(f"free {stream.source}")
                receiver.ask(f"freeplan {stream.ack}")
                receiver.ask(f"free {stream.target}")


def check_gaps(case, sender, receiver, seat="any"):
    stream = Stream(sender, receiver, shape="32x8x24", target_shape="16x16x40", attached=(True, True), seat=seat)
    case.assertEqual(stream.written_gaps(3), [])


class Attached(harness.Case):
    def test_every_side(self):
        for number, (nodes, seat) in enumerate(PLACES):
            check_every_side(self, *self.cluster(2, options={"rails.enable": "shm tcp"}).group(nodes, name=f"job{number}"), seat)

    def test_gaps_stay_as_they_are(self):
        for number, (nodes, seat) in enumerate(PLACES):
            check_gaps(self, *self.cluster(2, options={"rails.enable": "shm tcp"}).group(nodes, name=f"job{number}"), seat)

    def test_notified_later(self):
        """Puts without a notification of their own have arrived when the next put's notification has."""
        sender, receiver = self.cluster(1).group([0, 0])
        source = sender.attach(1 << 16)
        target = receiver.attach(1 << 16)
        handle = receiver.handle(target)
        plan = sender.plan(f"put {source} 0 3000 {handle} 0 3000", f"put {source} 3000 3000 {handle} 3000 3000", "notify 1 2")
        for seed in range(20):
            sender.ask(f"fill {source} 0 6000 {seed}")
            sender.ask(f"start {plan}")
            receiver.ask("notified_wait 0 2 -2")
            receiver.ask(f"check {target} 0 6000 {seed}")
            sender.ask(f"wait {plan} -2")

    def test_no_notification(self):
        sender, receiver = self.cluster(1).group([0, 0])
        source = sender.alloc(8192)
        target = receiver.attach(8192)
        plan = sender.plan(f"put {source} 0 8000 {receiver.handle(target)} 0 8000")
        sender.ask(f"fill {source} 0 8000 3")
        sender.run(plan, 1000)
        receiver.ask(f"check {target} 0 8000 3")

    def test_bad_memory(self):
        """An unmapped address harms only the process that named it."""
        cluster = self.cluster(1)
        sender, receiver = cluster.group([0, 0])
        for size in (0,):
            with self.assertRaises(Failed) as caught:
                sender.attach(size)
            self.assertEqual(caught.exception.name, "-EINVAL")
        receiver.kill()
        harness.until(lambda: cluster[0].counts()[0] == 1, "it is gone")
        self.assertEqual(Stream(*cluster.group([0, 0], name="again"), attached=(True, True)).run(3), 3)

    def test_killed(self):
        for victim in (0, 1):
            cluster = self.cluster(1)
            actors = cluster.group([0, 0])
            stream = Stream(*actors, shape="500000", attached=(True, True))
            stream.begin()
            time.sleep(0.2)
            actors[victim].kill()
            with self.assertRaises(Failed) as caught:
                actors[1 - victim].answer()
            self.assertEqual(caught.exception.name, "-EOWNERDEAD", caught.exception.text)

    def test_told_to_others(self):
        """A process that has not attached the memory is notified of the data, too, but not before it is there."""
        for nodes in ([0, 1, 1], [0, 1, 2], [0, 0, 0], [0, 1, 0]):
            sender, owner, other = self.cluster(3).group(nodes)
            source = sender.alloc(1 << 20)
            target = owner.attach(1 << 20)
            plan = sender.plan(f"put {source} 0 700000 {owner.handle(target)} 0 700000", "notify 2 0", "notify 1 0", seat="daemon")
            owner.ask("count 0 0")  # it has heard of the plan
            for seed in range(10):
                sender.ask(f"fill {source} 0 700000 {seed}")
                sender.ask(f"start {plan}")
                other.ask("notified_wait 0 0 -2")
                owner.ask(f"check {target} 0 700000 {seed}")
                owner.ask("notified_wait 0 0 -2")
                sender.ask(f"wait {plan} -2")

    def test_quota(self):
        """Memory that a process had before counts like any other, as long as it is a region."""
        sender, receiver = self.cluster(2, options={"memory.region_bytes_per_user": "1M"}).group([0, 1])
        with self.refused("-EDQUOT", "region_bytes_per_user", "1048576"):
            sender.attach(2 << 20)
        far = receiver.attach(1000)
        for _ in range(60):  # each releases what it has taken
            region = sender.attach(500000)
            plan = sender.plan(f"put {region} 0 64 {receiver.handle(far)} 0 64", "notify 1 0")
            sender.run(plan)
            sender.ask(f"freeplan {plan}")
            sender.ask(f"free {region}")
        harness.until(lambda: receiver.ask("count 0 0") == ["60"], "all have been there")

    def test_freed_while_others_put(self):
        """After its process has ended, the memory is not touched any more, and the others are notified."""
        sender, receiver = self.cluster(2).group([0, 1])
        source = sender.attach(1 << 20)
        target = receiver.attach(1 << 20)
        plan = sender.plan(f"put {source} 0 900000 {receiver.handle(target)} 0 900000", "notify 1 0")
        sender.tell(f"repeat {plan} 0")
        time.sleep(0.2)
        receiver.ask(f"free {target}")
        with self.assertRaises(Failed) as caught:
            sender.answer()
        self.assertEqual(caught.exception.name, "-ESTALE", caught.exception.text)
        self.assertEqual(Stream(sender, receiver, attached=(True, True), slot=1).run(3), 3)


@unittest.skipIf(os.geteuid() != 0, "only root may make PID namespaces")
class Containers(harness.Case):
    """Processes of PID namespaces: they know each other by process and thread ids, which are those of another process elsewhere."""

    def each(self, check, groups=("job 0 2", "job 1 2")):
        cluster = self.cluster(1)
        containers = [Container(cluster[0]) for _ in range(2)]
        for container in containers:
            self.addCleanup(container.end)
        first, second = containers
        for places in ((None, first), (first, None), (first, second), (first, first)):
            actors = [cluster.actor(within=place) for place in places]
            for actor, group in zip(actors, groups):
                actor.tell(f"open {group} -2")
            for actor in actors:
                actor.answer()
            with self.subTest(places=[containers.index(place) if place else None for place in places]):
                check(*actors)
            cluster.kill_actors(actors)

    def test_every_side(self):
        self.each(lambda sender, receiver: check_every_side(self, sender, receiver))

    def test_a_plan_waits(self):
        """A process copies while it waits for a plan, in either seat, that waits for the notification."""
        def check(sender, receiver):
            source, target = sender.alloc(1 << 20), receiver.attach(1 << 20)
            plan = sender.plan(f"put {source} 0 900000 {receiver.handle(target)} 0 900000", "notify 1 7")
            for seed, seat in enumerate(("client", "daemon")):
                waits = receiver.plan("await 0 7 1", "notify 0 3", seat=seat)
                sender.ask(f"fill {source} 0 900000 {seed}")
                receiver.ask(f"start {waits}")
                receiver.tell(f"wait {waits} -2")
                sender.ask(f"start {plan}")
                sender.tell(f"wait {plan} -2")
                receiver.answer()
                receiver.ask(f"check {target} 0 900000 {seed}")
                sender.answer()

        self.each(check)

    def test_without_the_receiver(self):
        """Plans that do not notify only the receiver, and of other groups."""
        def check(sender, receiver):
            source, target = sender.alloc(8192), receiver.attach(8192)
            put = f"put {source} 0 8000 {receiver.handle(target)} 0 8000"
            for seed, notified in enumerate(((), ("notify 0 7",))):
                plan = sender.plan(put, *notified)
                sender.ask(f"fill {source} 0 8000 {seed}")
                sender.run(plan, 1000)
                self.assertEqual(sender.receipt(plan)["seat"], "client")
                receiver.ask(f"check {target} 0 8000 {seed}")

        self.each(check)
        self.each(check, groups=("left 0 1", "right 0 1"))


if __name__ == "__main__":
    harness.main()
