#!/usr/bin/env python3
"""Puts between processes of a node, in every copy mode, while either end stops or dies."""

import os
import random
import signal
import time

import harness
from lanes import SHARED, WAYS, Way

PATIENCE = "2s"  # of calls that must end without the other side; all others return before that, also on a busy machine


class Ends(Way):
    SIZES = ("5000", "60000", "4000000")

    def test_plan_is_freed_after_its_start(self):
        cluster = self.cluster()
        for way in WAYS:
            sender, receiver = self.pair(cluster, way, way)
            for size in self.SIZES:
                for round in range(harness.rounds(4)):
                    with self.subTest(way=way, size=size, round=round):
                        plan, source, target = self.one_way(sender, receiver, size, round, region_bytes=4 << 20)
                        sender.ask(f"start {plan}")
                        sender.ask(f"freeplan {plan}")
                        sender.ask(f"free {source}")
                        receiver.ask("notified_wait 0 0 -2")
                        receiver.ask(f"check {target} 0 {size} {round}")
                        receiver.ask(f"free {target}")
        harness.until(lambda: cluster[0].counts()[1:] == (0, 0), "nothing is left at the daemon")

    def sees_the_end(self, receiver, target, size):
        """Notified data has arrived, and after it only the sender's end."""
        receiver.ask("notified_wait 0 0 -2")
        receiver.ask(f"check {target} 0 {size} 5")
        with self.refused("-EOWNERDEAD"):
            receiver.ask("notified_wait 0 0 -2")
        receiver.ask("close")

    def test_session_is_closed_after_its_start(self):
        cluster = self.cluster()
        for way in WAYS:
            for size in self.SIZES:
                for round in range(harness.rounds(2)):
                    with self.subTest(way=way, size=size, round=round):
                        sender, receiver = self.pair(cluster, way, f"{way}{size}{round}")
                        plan, _, target = self.one_way(sender, receiver, size, region_bytes=4 << 20)
                        sender.ask(f"start {plan}")
                        sender.tell("close")
                        self.sees_the_end(receiver, target, size)
                        sender.answer()

    def test_sender_is_killed_after_its_start(self):
        """Notified data arrives, though most of it is still in the lane."""
        cluster = self.cluster()
        for way in WAYS:
            for size in ("5000", "60000"):
                for round in range(harness.rounds(4)):
                    with self.subTest(way=way, size=size, round=round):
                        sender, receiver = self.pair(cluster, way, f"{way}{size}{round}")
                        plan, _, target = self.one_way(sender, receiver, size)
                        sender.run(plan)
                        sender.kill()
                        if round % 2:
                            harness.until(lambda: cluster[0].counts()[0] == 1, "the daemon has noticed")
                        self.sees_the_end(receiver, target, size)

    def test_region_is_freed_under_the_lane(self):
        cluster = self.cluster()
        for way in WAYS:
            sender, receiver = self.pair(cluster, way, way)
            stream = harness.Stream(sender, receiver, shape="50000", slot=1)
            for round in range(harness.rounds(4)):
                with self.subTest(way=way, round=round):
                    plan, _, target = self.one_way(sender, receiver, "60000")
                    sender.ask(f"start {plan}")
                    receiver.ask(f"free {target}")
                    receiver.ask("notified_wait 0 0 -2")
                    harness.until(lambda: "broken" in str(cluster[0].plans()), "the plan is broken")
                    with self.refused("-ESTALE"):
                        sender.ask(f"wait {plan} -2")
                        sender.ask(f"start {plan}")
                    sender.ask(f"freeplan {plan}")
                    self.assertEqual(stream.run(5), 5)

    def killed(self, victim):
        cluster = self.cluster()
        dice = random.Random(victim)
        for way in WAYS:
            for size in self.SIZES:
                for round in range(harness.rounds(2)):
                    with self.subTest(way=way, size=size, round=round):
                        pair = self.pair(cluster, way, f"{way}{size}{round}")
                        harness.Stream(*pair, shape=size, region_bytes=4 << 20).begin()
                        time.sleep(dice.random() * 0.05)
                        pair[victim].kill()
                        with self.refused("-EOWNERDEAD"):
                            pair[1 - victim].answer()
                        pair[1 - victim].ask("close")
        harness.until(lambda: cluster[0].counts() == (0, 0, 0), "nothing is left at the daemon")

    def test_sender_is_killed(self):
        self.killed(0)

    def test_receiver_is_killed(self):
        self.killed(1)


class Keeps(Way):
    """What is mapped, and for how long."""

    @staticmethod
    def held(pid):
        with open(f"/proc/{pid}/maps", encoding="ascii") as maps:
            return len(os.listdir(f"/proc/{pid}/fd")), sum("memfd" in line for line in maps)

    def test_plans_and_regions_come_and_go(self):
        cluster = self.cluster()
        for way in SHARED:
            sender, receiver = self.pair(cluster, way, way)

            def once(seed):
                plan, source, target = self.one_way(sender, receiver, "30000", seed)
                sender.ask(f"start {plan}")
                receiver.ask("notified_wait 0 0 -2")
                receiver.ask(f"check {target} 0 30000 {seed}")
                sender.ask(f"freeplan {plan}")
                sender.ask(f"free {source}")
                receiver.ask("notified 0 0")  # it processes events, and learns that they are gone
                receiver.ask(f"free {target}")
                sender.ask("notified 1 0")

            once(1)
            once(2)
            pids = (receiver.pid, cluster[0].process.pid)
            before = [self.held(pid) for pid in pids], self.held(sender.pid)[0]
            for seed in range(harness.rounds(20)):
                with self.subTest(way=way, seed=seed):
                    once(seed)
            # its sender keeps what plans of its own have mapped
            self.assertEqual(([self.held(pid) for pid in pids], self.held(sender.pid)[0]), before)

    def test_regions_of_freed_plans(self):
        """Of those that no plan uses, few stay mapped: the ones used last. The others are mapped again when a plan needs them."""
        kept, more = 32, 10
        sender, receiver = self.cluster().group([0, 0])
        source = sender.alloc(4096)
        targets = [receiver.alloc(4096) for _ in range(kept + more)]

        def mapped():
            with open(f"/proc/{sender.pid}/maps", encoding="ascii") as maps:
                return sum("memfd:tca-region" in line for line in maps)

        def plan_to(target):
            return sender.plan(f"put {source} 0 4096 {receiver.handle(target)} 0 4096", seat="client")

        before = mapped()
        plans = [plan_to(target) for target in targets]
        self.assertEqual(mapped(), before + kept + more)  # they are in use
        for plan in plans:
            sender.ask(f"freeplan {plan}")
        self.assertEqual(mapped(), before + kept)
        for number, target in [*enumerate(targets), *enumerate(targets[::-1])]:
            with self.subTest(number=number):
                sender.ask(f"fill {source} 0 4096 {number}")
                plan = plan_to(target)
                sender.run(plan, -1)
                receiver.ask(f"check {target} 0 4096 {number}")
                sender.ask(f"freeplan {plan}")
                self.assertEqual(mapped(), before + kept)

    def test_receiver_that_does_not_read(self):
        """Its socket is full of offers long before the last one: the sender copies the other puts alone, and all of them arrive."""
        count, size = 700, 512
        cluster = self.cluster()
        for way in SHARED:
            with self.subTest(way=way):
                sender, receiver = self.pair(cluster, way, way)
                source = sender.alloc(count * size)
                target = receiver.alloc(count * size)
                handle = receiver.handle(target)
                sender.ask(f"fill {source} 0 {count * size} 9")
                places = [random.Random(way).sample(range(count), count)]
                plans = [sender.plan(f"put {source} {place * size} {size} {handle} {place * size} {size}", "notify 1 0")
                         for place in places[0]]
                ways = []
                for plan in plans:
                    sender.run(plan)
                    ways.append(sender.receipt(plan)["way"])
                self.assertEqual({*ways}, {way, "push"})
                for _ in plans:
                    receiver.ask("notified_wait 0 0 -2")
                receiver.ask(f"check {target} 0 {count * size} 9")
                sender.ask("close")
                receiver.ask("close")


class Met(Way):
    """A process that lives long, and others that it meets."""

    def mappings(self, actor):
        with self.assertRaises(harness.Failed):  # reads what tcad reports
            actor.ask("notified_wait 0 0 1")
        with open(f"/proc/{actor.process.pid}/maps", encoding="ascii") as maps:
            return sum("memfd:" in line for line in maps)

    def test_processes_that_have_ended_stay_mapped_nowhere(self):
        for way in SHARED:
            with self.subTest(way=way):
                actor, *others = self.cluster().group([0] * 6, TCA_COPY=way)
                source = actor.alloc(65536)
                before = self.mappings(actor)
                for rank, other in enumerate(others, 1):
                    target = other.alloc(65536)
                    plan = actor.plan(f"put {source} 0 65536 {other.handle(target)} 0 65536", f"notify {rank} 0", seat="client")
                    actor.run(plan, -1)
                    other.ask("notified_wait 0 0 -1")
                    self.assertGreater(self.mappings(actor), before)
                    if rank % 2:
                        actor.ask(f"freeplan {plan}")
                    other.kill()
                    with self.refused("-EOWNERDEAD"):
                        actor.ask(f"notified_wait {rank} 0 -1")
                    if rank % 2 == 0:
                        actor.ask(f"freeplan {plan}")
                    harness.until(lambda: self.mappings(actor) == before, "what it had mapped is unmapped")


    def test_processes_that_have_put_here_and_ended_stay_mapped_nowhere(self):
        """Their lanes go, too, after what is left in them has been copied, also where it was notified and not taken."""
        for way in SHARED:
            with self.subTest(way=way):
                actor, *others = self.cluster().group([0] * 6, TCA_COPY=way)
                target = actor.alloc(65536)
                before = self.mappings(actor)
                for rank, other in enumerate(others, 1):
                    source = other.alloc(65536)
                    other.ask(f"set {source} 0 65536 {rank}")
                    plan = other.plan(f"put {source} 0 65536 {actor.handle(target)} 0 65536", "notify 0 0", seat="client")
                    for _ in range(2):
                        other.ask(f"start {plan}")
                        actor.ask(f"notified_wait {rank} 0 -1")
                        other.ask(f"wait {plan} -1")
                    self.assertGreater(self.mappings(actor), before)
                    other.ask(f"set {source} 0 65536 {rank + 100}")
                    other.tell(f"start {plan}")
                    if rank % 2:
                        other.answer()
                    other.kill()
                    harness.until(lambda: self.mappings(actor) == before, "what it had mapped is unmapped")
                    if rank % 2 == 0:
                        continue
                    actor.ask(f"notified_wait {rank} 0 -1")
                    actor.ask(f"same {target} 0 65536 {rank + 100}")
                    with self.refused("-EOWNERDEAD"):
                        actor.ask(f"notified_wait {rank} 0 -1")


class Stops(Way):
    def test_either_is_stopped_for_a_while(self):
        cluster = self.cluster()
        dice = random.Random(3)
        for way in SHARED:
            for size in ("5000", "300000", "4000000"):
                with self.subTest(way=way, size=size):
                    pair = self.pair(cluster, way, f"{way}{size}")
                    stream = harness.Stream(*pair, shape=size, region_bytes=4 << 20)
                    stream.begin()
                    for round in range(harness.rounds(8)):
                        process = pair[round % 2].process
                        harness.stop(process.pid)
                        time.sleep(dice.random() * 0.02)
                        process.send_signal(signal.SIGCONT)
                        time.sleep(dice.random() * 0.02)
                    self.assertGreater(stream.finish(), 0)

    def test_receiver_stays_stopped(self):
        """Stopped in the middle of a piece, which the other end cannot copy then: the sender's calls end in time, and what it
        frees is freed."""
        cluster = self.cluster()
        for way in ("pull", "half"):
            for freed in (False, True):
                with self.subTest(way=way, freed=freed):
                    sender, receiver = self.pair(cluster, way, f"{way}{freed}", TCA_TIMEOUT=PATIENCE)
                    plan, _, target = self.one_way(sender, receiver, "8000000", region_bytes=8 << 20)
                    receiver.ask(f"trap {target} {4 << 20} {2 << 20}")  # in its part, in both modes
                    receiver.tell("listen 0 0")
                    with self.refused("-ETIMEDOUT"):
                        sender.ask(f"repeat {plan} 0")  # alone, until the receiver takes part
                    self.assertEqual(self.state_of(receiver.process), "T")
                    if freed:
                        sender.ask(f"freeplan {plan}")
                    sender.ask("close")
                    receiver.process.send_signal(signal.SIGCONT)
                    receiver.process.stdin.write(b"\n")
                    try:
                        receiver.answer()
                    except harness.Failed as error:
                        self.assertEqual(error.name, "-EOWNERDEAD")
                    receiver.ask("close")

    @staticmethod
    def state_of(process):
        with open(f"/proc/{process.pid}/stat", encoding="ascii", errors="replace") as stat:
            return stat.read().rsplit(") ", 1)[1][0]

    def test_sender_stays_stopped(self):
        """The receiver does not copy in vain, and a daemon seat that needs the lane empty is refused in time."""
        cluster = self.cluster()
        dice = random.Random(5)
        for way in SHARED:
            for round in range(harness.rounds(2)):
                with self.subTest(way=way, round=round):
                    sender, receiver = self.pair(cluster, way, f"{way}{round}", TCA_TIMEOUT=PATIENCE)
                    stream = harness.Stream(sender, receiver, shape="4000000", region_bytes=4 << 20)
                    stream.begin()
                    time.sleep(0.05 + dice.random() * 0.05)
                    harness.stop(sender.process.pid)
                    time.sleep(0.05)
                    receiver.process.stdin.write(b"\n")
                    receiver.answer()
                    try:
                        receiver.plan("await 0 3 1", "notify 0 3", seat="daemon")
                    except harness.Failed as error:
                        self.assertEqual(error.name, "-ETIMEDOUT")
                    sender.process.send_signal(signal.SIGCONT)
                    sender.process.stdin.write(b"\n")
                    try:
                        sender.answer()
                    except harness.Failed as error:
                        self.assertEqual(error.name, "-ETIMEDOUT")
                    sender.ask("close")
                    receiver.ask("close")


if __name__ == "__main__":
    harness.main()
