#!/usr/bin/env python3
"""Clients die in the middle of transfers: their resources are freed, processes that wait for them get an error, others do not
notice."""

import random
import time

import harness
from harness import Stream

# places of (victim, peer), rail, seat
WAYS = [([0, 0], "shm", "client"), ([0, 0], "shm", "daemon"), ([0, 0], "ofi", "daemon"), ([0, 1], "ofi", "daemon")]
ROUNDS = harness.rounds(3)  # of each case, as the sender and as the receiver


class Killed(harness.Case):
    RAILS = "shm ofi"

    def setUp(self):
        super().setUp()
        self.slowest_s = 0

    def freed(self, cluster, before):
        """Waits until all is as before; records the longest time for the report."""
        begin = time.monotonic()

        def same():
            now = [node.counts() for node in cluster.nodes]
            self.assertEqual(now, before)
            return True
        harness.until(same, f"what the dead held is freed, down to {before}")
        self.slowest_s = max(self.slowest_s, time.monotonic() - begin)

    def expect_death(self, actor, command, rank):
        with self.refused("-EOWNERDEAD", f"rank {rank}") as refusal:
            actor.ask(command)
        self.assertNotIn("unnamed", refusal.text)  # the plan is named once, by its id

    def test_in_the_middle(self):
        """Again and again, each rail and seat, sender and receiver; a third pair works on undisturbed."""
        cluster = self.cluster(2)
        bystanders = [Stream(*cluster.group([0, 1], name="far"), shape="64x1024x4096"),
                      Stream(*cluster.group([0, 0], name="near"), seat="client", shape="4096"),
                      Stream(*cluster.group([1, 1], name="engine"), seat="daemon", shape="100000")]
        for stream in bystanders:
            stream.begin(bystander=True)
        before = [node.counts() for node in cluster.nodes]
        for turn in range(ROUNDS):
            for places, rail, seat in WAYS:
                for role in ("sender", "receiver"):
                    with self.subTest(turn=turn, places=places, rail=rail, seat=seat, role=role):
                        self.one_death(cluster, places, rail, seat, role)
                        self.freed(cluster, before)
        for stream in bystanders:
            self.assertGreater(stream.finish(), 0)
        print(f"freed within {self.slowest_s:.2f} s, seen through tcactl of both nodes")

    def one_death(self, cluster, places, rail, seat, role):
        sender, receiver = cluster.group(places, name="doomed")
        stream = Stream(sender, receiver, rail=rail, seat=seat, shape="256x2048x4096")
        stream.begin()
        time.sleep(random.uniform(0.005, 0.1))
        victim, survivor = (sender, receiver) if role == "sender" else (receiver, sender)
        victim.kill()
        rank = 1 if role == "receiver" else 0
        with self.refused("-EOWNERDEAD", f"rank {rank}"):
            survivor.answer()
        self.expect_death(survivor, f"notified_wait {rank} 5 -1", rank)
        self.expect_death(survivor, f"notified {rank} 5", rank)
        self.expect_death(survivor, f"start {stream.plan if role == 'receiver' else stream.ack}", rank)
        survivor.ask("close")
        survivor.end()

    def test_commit_names_the_rank(self):
        """A plan that notifies a dead process is refused by its rank, near and far: sessions mean nothing to a program."""
        for places, seat in (([0, 0], "client"), ([0, 0], "daemon"), ([0, 1], "client"), ([0, 1], "daemon")):
            with self.subTest(places=places, seat=seat):
                cluster = self.cluster(1 + max(places), options={"rails.enable": "shm tcp"})
                survivor, victim = cluster.group(places)
                victim.kill()
                self.expect_death(survivor, "notified_wait 1 5 -1", 1)
                with self.refused("-EOWNERDEAD", "rank 1, to be notified, has ended") as refusal:
                    survivor.plan("notify 1 5", seat=seat)
                self.assertNotIn("session", refusal.text)
                survivor.ask("close")
                survivor.end()

    def test_in_a_wait(self):
        """A running start that waits for the dead process ends with -EOWNERDEAD, in both seats, near and far."""
        for places, seat in (([0, 0], "client"), ([0, 0], "daemon"), ([0, 1], "daemon")):
            with self.subTest(places=places, seat=seat):
                cluster = self.cluster(1 + max(places))
                waiter, victim = cluster.group(places)
                source = waiter.alloc(4096)
                target = victim.alloc(4096)
                plan = waiter.plan("await 1 0 1", f"put {source} 0 64 {victim.handle(target)} 0 64", seat=seat)
                waiter.ask(f"start {plan}")
                waiter.tell(f"wait {plan} -1")
                time.sleep(0.2)  # so that it sleeps in it
                victim.kill()
                with self.refused("-EOWNERDEAD", "rank 1"):
                    waiter.answer()
                self.expect_death(waiter, f"start {plan}", 1)
                with self.refused("-EOWNERDEAD", "rank 1"):
                    waiter.ask(f"test {plan}")
                self.assertEqual(waiter.receipt(plan)["status"] < 0, True)
                waiter.ask(f"freeplan {plan}")

    def test_other_chains_go_on(self):
        """A chain that does not need the dead process runs to its end, in both seats; then the start fails."""
        cluster = self.cluster(1)
        for seat in ("client", "daemon"):
            with self.subTest(seat=seat):
                waiter, victim, friend = cluster.group([0, 0, 0], name=seat)
                memory = victim.alloc(4096)
                plan = waiter.plan("await 1 0 1", "chain", f"await 2 1 1", f"put {waiter.alloc(64)} 0 64 {victim.handle(memory)} 0 64",
                                   "chain", "await 2 0 1", "notify 2 0", seat=seat)
                other = waiter.plan("notify 1 0", seat=seat)
                waiter.ask(f"start {plan}")
                victim.kill()
                harness.until(lambda: self.cannot_start(waiter, other), "its plans are broken")
                self.assertEqual(waiter.ask(f"test {plan}"), ["0"])
                tell = friend.plan("notify 0 0")
                friend.ask(f"start {tell}")
                self.expect_death(waiter, f"wait {plan} -2", 1)
                friend.ask("notified_wait 0 0 -2")
                waiter.ask("close")
                friend.ask("close")

    def cannot_start(self, actor, plan):
        try:
            actor.ask(f"start {plan}")
        except harness.Failed as failed:
            return failed.name == "-EOWNERDEAD"
        return False

    def test_wait_only(self):
        """A plan that consists of a wait for the dead process."""
        for places in ([0, 0], [0, 1]):
            for seat in ("client", "daemon"):
                with self.subTest(places=places, seat=seat):
                    waiter, victim = self.cluster(1 + max(places)).group(places)
                    plan = waiter.plan("await 1 0 1", seat=seat)
                    waiter.ask(f"start {plan}")
                    waiter.tell(f"wait {plan} -1")
                    victim.kill()
                    with self.refused("-EOWNERDEAD", "rank 1"):
                        waiter.answer()

    def test_asleep_in_notified_wait(self):
        for places in ([0, 0], [0, 1]):
            with self.subTest(places=places):
                waiter, victim = self.cluster(1 + max(places)).group(places)
                waiter.tell("notified_wait 1 0 -1")
                time.sleep(0.5)
                victim.kill()
                with self.refused("-EOWNERDEAD", "rank 1"):
                    waiter.answer()

    def test_what_came_before_the_death_counts(self):
        """Notifications of the dead process can still be taken; then comes the error."""
        for places in ([0, 0], [0, 1]):
            with self.subTest(places=places):
                waiter, victim = self.cluster(1 + max(places)).group(places)
                plan = victim.plan("notify 0 0")
                for _ in range(3):
                    victim.run(plan)
                harness.until(lambda: waiter.ask("count 1 0") == ["3"], "three notifications arrive")
                victim.kill()
                harness.until(lambda: self.is_dead(waiter), "its death is known")
                for _ in range(3):
                    waiter.ask("notified_wait 1 0 0")
                self.expect_death(waiter, "notified_wait 1 0 0", 1)

    def is_dead(self, actor):
        try:
            actor.ask("notified 1 1")
        except harness.Failed:
            return True
        return False

    def test_in_set_up(self):
        """Members that wait in a gather, a lookup or a join get an error when one dies."""
        cluster = self.cluster(2)
        for places in ([0, 0, 1], [1, 0, 0], [0, 1, 1]):
            for root in (0, 1):
                with self.subTest(places=places, root=root):
                    self.die_in_set_up(cluster, places, f"{''.join(map(str, places))}@node{root}")
        self.freed(cluster, [(0, 0, 0)] * 2)

    def die_in_set_up(self, cluster, places, name):
        left, right, victim = cluster.group(places, name=name)
        left.tell("barrier -1")
        right.tell("barrier -1")
        time.sleep(0.2)
        victim.kill()
        for actor in (left, right):
            with self.refused("-EOWNERDEAD", "rank 2"):
                actor.answer()
            with self.refused("-EOWNERDEAD", "rank 2 (session"):
                actor.ask("allgather 00 -1")
            actor.ask("close")
        # the same in the join, when two of three have called it
        victim = cluster.actor(places[2])
        left.until_joining(f"open early{name} 0 3 -1")
        victim.until_joining(f"open early{name} 2 3 -1")
        victim.kill()
        with self.refused("-EOWNERDEAD", "rank 2"):
            left.answer()
        left.end()
        right.end()

    def test_sessions_with_the_same_number(self):
        """Daemons number their sessions independently: a session with the same number on another node is not affected by a
        death."""
        cluster = self.cluster(2, fresh=True)
        actors = cluster.group([0, 0, 1, 1])
        numbers = [next(session["id"] for session in actor.node.sessions() if session["pid"] == actor.pid) for actor in actors]
        sender, receiver = actors[:2]
        twin = 2 + numbers[2:].index(numbers[1])
        stream = Stream(sender, receiver, seat="client")
        self.assertEqual(stream.run(1), 1)
        actors[twin].kill()
        self.expect_death(sender, f"notified_wait {twin} 5 -1", twin)
        self.assertEqual(stream.run(3), 3)

    def test_handles_of_the_dead(self):
        for places in ([0, 0], [0, 1]):
            with self.subTest(places=places):
                cluster = self.cluster(1 + max(places))
                sender, victim = cluster.group(places)
                source = sender.alloc(4096)
                target = victim.alloc(4096)
                handle = victim.handle(target)
                victim.kill()
                harness.until(lambda: cluster[places[1]].counts()[1] == (1 if places == [0, 0] else 0), "it is freed")
                with self.refused("-ESTALE", "region"):
                    sender.plan(f"put {source} 0 64 {handle} 0 64")

    def test_the_group_can_be_made_again(self):
        cluster = self.cluster(2)
        for _ in range(5):
            left, right = cluster.group([0, 1], name="again")
            right.kill()
            self.expect_death(left, "notified_wait 1 0 -1", 1)
            left.ask("close")
            left.end()

    def test_many_at_once(self):
        """Sixteen clients of one job are killed at the same time, as a launcher does."""
        cluster = self.cluster(2)
        witness = Stream(*cluster.group([0, 1], name="witness"))
        witness.begin()
        before = [node.counts() for node in cluster.nodes]
        for _ in range(3):
            actors = cluster.group([0, 1] * 8, name="crowd")
            streams = [Stream(actors[i], actors[i + 1], ranks=(i, i + 1), shape="65536") for i in range(0, 16, 2)]
            for stream in streams:
                stream.begin()
            time.sleep(0.1)
            cluster.kill_actors(actors)
            self.freed(cluster, before)
        self.assertGreater(witness.finish(), 0)

    def test_nothing_is_left(self):
        """Descriptors and memory of the daemons after many deaths."""
        cluster = self.cluster(2)

        def deaths(count):
            for i in range(count):
                sender, receiver = cluster.group([0, 1], name=f"doomed{count}.{i}")
                stream = Stream(sender, receiver, shape="65536", region_bytes=4 << 20)
                stream.begin()
                (sender if i % 2 else receiver).kill()
                with self.refused("-EOWNERDEAD"):
                    (receiver if i % 2 else sender).answer()
                (receiver if i % 2 else sender).kill()
            self.freed(cluster, [(0, 0, 0)] * 2)
        deaths(5)
        fds, memory = [node.fds() for node in cluster.nodes], [node.memory_kib() for node in cluster.nodes]
        deaths(20)
        for node, fds_before, memory_before in zip(cluster.nodes, fds, memory):
            harness.until(lambda node=node, most=fds_before: node.fds() <= most, "its descriptors are closed")
            self.assertLess(node.memory_kib(), memory_before + 8192 * harness.SLOW, "KiB")


if __name__ == "__main__":
    harness.main()
