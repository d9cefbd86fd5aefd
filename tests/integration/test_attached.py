#!/usr/bin/env python3
"""Attached memory: the same puts, the same results. In the client's seat; test_bounces.py has the daemon's."""

import os
import time
import unittest

import harness
from actors import Container
from harness import Failed, Stream, until

SHAPES = [("1", "1"), ("8", "8"), ("65536", "65536"), ("64x32x128", "2048"), ("2048", "64x32x128"), ("100x8x4096", "50x16x64"),
          ("1000x1x3", "1x1000x0"), ("700001", "700001")]


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
        check_every_side(self, *self.cluster(1).group([0, 0]))

    def test_gaps_stay_as_they_are(self):
        check_gaps(self, *self.cluster(1).group([0, 0]))

    def test_the_receiver_looks_later(self):
        """What the lane cannot hold is written through the kernel, or waits."""
        sender, receiver = self.cluster(1).group([0, 0])
        for length in (100, 5000, 900000):
            source = sender.alloc(1 << 20)
            target = receiver.attach(1 << 20)
            plan = sender.plan(f"put {source} 0 {length} {receiver.handle(target)} 0 {length}", "notify 1 7")
            sender.ask(f"fill {source} 0 {length} {length}")
            sender.ask(f"start {plan}")
            time.sleep(0.05)
            sender.tell(f"wait {plan} -2")
            receiver.ask("notified_wait 0 7 -2")
            receiver.ask(f"check {target} 0 {length} {length}")
            sender.answer()

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
        """Written directly through the kernel, where permitted."""
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


@unittest.skipIf(os.geteuid() != 0, "only root may make PID namespaces")
class Containers(harness.Case):
    """Processes of PID namespaces: they know each other by process and thread ids, which are those of another process elsewhere."""

    def each(self, check, groups=("job 0 2", "job 1 2")):
        """Calls check with sender, receiver, and whether they are in the same namespace."""
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
                check(*actors, places[0] is places[1])
            cluster.kill_actors(actors)

    def test_every_side(self):
        self.each(lambda sender, receiver, same: check_every_side(self, sender, receiver))

    def test_a_plan_waits(self):
        """A process copies while it waits for a plan, in either seat, that waits for the notification."""
        def check(sender, receiver, _same):
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

    def test_the_receiver_looks_later(self):
        def check(sender, receiver, same):
            source, target = sender.alloc(1 << 20), receiver.attach(1 << 20)
            plan = sender.plan(f"put {source} 0 900000 {receiver.handle(target)} 0 900000", "notify 1 7")
            sender.ask(f"fill {source} 0 900000 5")
            sender.ask(f"start {plan}")
            time.sleep(0.05)
            sender.tell(f"wait {plan} -2")
            if same:
                sender.answer()
            receiver.ask("notified_wait 0 7 -2")
            receiver.ask(f"check {target} 0 900000 5")
            if not same:
                sender.answer()

        self.each(check)

    def test_of_other_groups(self):
        """The sender writes alone within a namespace. Else tcad has the receiver copy, and a plan that may not be tcad's is refused."""
        def check(sender, receiver, same):
            source, target = sender.alloc(8192), receiver.attach(8192)
            put = f"put {source} 0 8000 {receiver.handle(target)} 0 8000"
            plan = sender.plan(put)
            sender.ask(f"fill {source} 0 8000 3")
            sender.run(plan, 1000)
            self.assertEqual(sender.receipt(plan)["seat"], "client" if same else "daemon")
            until(lambda: self.arrived(receiver, target), "the data is there")
            if not same:
                with self.refused("-ENETDOWN", "in another PID namespace"):
                    sender.plan(put, seat="client")

        self.each(check, groups=("left 0 1", "right 0 1"))

    def test_without_the_receiver(self):
        """Plans that do not notify only the receiver, so that it does not copy."""
        def check(sender, receiver, same):
            source, target = sender.alloc(8192), receiver.attach(8192)
            put = f"put {source} 0 8000 {receiver.handle(target)} 0 8000"
            for seed, notified in enumerate(((), ("notify 0 7",), ("notify 1 7", "notify 0 7"))):
                plan = sender.plan(put, *notified)
                sender.ask(f"fill {source} 0 8000 {seed}")
                sender.ask(f"start {plan}")
                until(lambda seed=seed: self.arrived(receiver, target, seed), "the data is there")
                sender.ask(f"wait {plan} -2")
                self.assertEqual(sender.receipt(plan)["seat"], "client" if same else "daemon")
                if not same:
                    with self.refused("-ENETDOWN", "in another PID namespace", "only it is notified"):
                        sender.plan(put, *notified, seat="client")

        self.each(check)

    def test_more_puts_than_a_lane_takes(self):
        """4095 at a time can be shared. The sender cannot write the others itself, and learns what to do."""
        def check(sender, receiver, same):
            source, target = sender.alloc(8192), receiver.attach(8192)
            handle = receiver.handle(target)
            plan = sender.plan(*(f"put {source} {i} 1 {handle} {i} 1" for i in range(4100)), "notify 1 7", seat="client")
            sender.ask(f"fill {source} 0 8000 3")
            sender.ask(f"start {plan}")
            receiver.tell("notified_wait 0 7 1000")
            if same:
                sender.ask(f"wait {plan} -2")
                receiver.answer()
                receiver.ask(f"check {target} 0 4100 3")
                return
            with self.refused("-EPERM", "TCA_SEAT_DAEMON", "another PID namespace"):
                sender.ask(f"wait {plan} -2")
            with self.refused("-ETIMEDOUT"):
                receiver.answer()

        self.each(check)

    def arrived(self, receiver, target, seed=3):
        with self.refused("-ETIMEDOUT"):  # it looks for requests of its tcad
            receiver.ask("notified_wait 0 0 1")
        try:
            receiver.ask(f"check {target} 0 8000 {seed}")
        except Failed:
            return False
        return True


if __name__ == "__main__":
    harness.main()
