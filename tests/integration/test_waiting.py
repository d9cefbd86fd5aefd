#!/usr/bin/env python3
"""Plans in the daemon's seat that wait for each other: a waiting start blocks no other one, in any channel."""

import os
import random
import secrets
import signal

import graphs
import harness

SEED = int(os.environ.get("TCA_TEST_SEED", secrets.randbits(32)))
WAITING = 500
SLOTS = 64


class Graph(graphs.Graph):
    """Edges are notifications, each with a slot of its own."""

    def connect(self, earlier, later):
        ranks = self.ranks[earlier], self.ranks[later]
        slot = sum((self.ranks[one], self.ranks[other]) == ranks for one, other in self.edges)
        return slot if slot < SLOTS else None

    def waits(self, vertex):
        return [f"await {self.ranks[earlier]} {self.edges[earlier, vertex]} 1" for earlier in self.before(vertex)]

    def tells(self, vertex, later):
        return f"notify {self.ranks[later]} {self.edges[vertex, later]}"


class Waiting(harness.Case):
    RAILS = "shm ofi"

    def running(self, actor, plan):
        return actor.ask(f"test {plan}") == ["0"]

    def test_for_one_started_later(self):
        actor, = self.cluster(1).group([0])
        waits = actor.plan("await 0 1 1", "notify 0 2", seat="daemon")
        tells = actor.plan("notify 0 1", seat="daemon")
        for _ in range(20):
            actor.ask(f"start {waits}")
            actor.ask(f"start {tells}")
            actor.ask(f"wait {waits} -2")
            actor.ask(f"wait {tells} -2")
            actor.ask("notified_wait 0 2 -2")

    def test_many_side_by_side(self):
        """Each waits for a notification of its own; notified ones end, and all others continue."""
        dice = random.Random(SEED)
        for places in ([0] * 8, [0, 0, 0, 0, 1, 1, 1, 1]):
            waiter, *others = actors = self.cluster(1 + max(places)).group(places)
            plans = [waiter.plan(f"await {i % 8} {i // 8} 1", seat="daemon", channel=i % 4) for i in range(WAITING)]
            tellers = [actors[i % 8].plan(f"notify 0 {i // 8}", seat="daemon") for i in range(WAITING)]
            order = list(range(WAITING))
            dice.shuffle(order)
            waiter.ask(f"starts {plans[0]} {plans[7]}")
            for plan in plans[8:]:
                waiter.ask(f"start {plan}")
            for count, i in enumerate(order):
                actors[i % 8].ask(f"start {tellers[i]}")
                waiter.ask(f"wait {plans[i]} -2")
                if count % 50 == 0:
                    for other in order[count + 1:]:
                        self.assertTrue(self.running(waiter, plans[other]), f"{other} was not told, seed {SEED}")

    def test_for_the_same(self):
        """Starts are served in their order."""
        waiter, teller = self.cluster(1).group([0, 0])
        plans = [waiter.plan(f"await 1 0 {1 + i % 3}", seat="daemon", channel=i % 4) for i in range(60)]
        tells = teller.plan("notify 0 0", seat="daemon")
        for i in range(0, 60, 4):  # channels are served in no order
            for plan in plans[i:i + 4]:
                waiter.ask(f"start {plan}")
                harness.until(lambda plan=plan: self.taken(waiter, plan), "the engine has it")
        for i, plan in enumerate(plans):
            for _ in range(1 + i % 3):
                self.assertTrue(self.running(waiter, plan))
                teller.run(tells)
            waiter.ask(f"wait {plan} -2")
            for later in plans[i + 1:]:
                self.assertTrue(self.running(waiter, later), f"{later} was before {plan}")

    def test_the_first_one_leaves(self):
        """A start that waits for more than has arrived holds up later ones only as long as it waits."""
        waiter, teller = self.cluster(1).group([0, 0])
        first = waiter.plan("await 1 0 5", seat="daemon")
        second = waiter.plan("await 1 1 1", "await 1 0 1", seat="daemon", channel=1)
        third = waiter.plan("await 1 0 2", seat="daemon", channel=2)
        tells = [teller.plan(f"notify 0 {slot}") for slot in (0, 1)]
        for plan in (first, second, third):
            waiter.ask(f"start {plan}")
            harness.until(lambda plan=plan: self.taken(waiter, plan), "the engine has it")
        for slot in (0, 0, 0, 1):
            teller.run(tells[slot])
        for plan in (first, second, third):
            self.assertTrue(self.running(waiter, plan), "it was before the first")
        waiter.ask(f"cancel {first}")
        for plan in (second, third):
            waiter.ask(f"wait {plan} -2")

    def taken(self, actor, plan):
        return any(entry["running"] for entry in actor.node.plans() if entry["id"].endswith(f".{plan}"))

    def test_ids_return(self):
        """A completion of a plan whose release has timed out is not one of the next plan with its number."""
        waiter, teller = self.cluster(1).group([0, 0], TCA_TIMEOUT="2s")  # how long freeing waits for the start, and then for tcad
        tells = teller.plan("notify 0 0")
        released = waiter.plan("await 1 0 1", seat="daemon")
        waiter.ask(f"start {released}")
        harness.until(lambda: self.taken(waiter, 0), "the engine has it")
        waiter.node.process.send_signal(signal.SIGSTOP)
        waiter.ask(f"freeplan {released}")
        waiter.node.process.send_signal(signal.SIGCONT)
        harness.until(lambda: waiter.node.counts()[2] == 1, "it is released")
        plan = waiter.plan("await 1 0 1", seat="daemon")
        waiter.ask(f"start {plan}")
        self.assertEqual(sorted(shown["id"].split(".")[1] for shown in waiter.node.plans()), ["0", "0"])
        self.assertTrue(self.running(waiter, plan), "a completion of the former plan has ended its start")
        teller.run(tells)
        waiter.ask(f"wait {plan} -2")

    def test_graphs(self):
        for places in ([0, 0, 0], [0, 1, 2, 0]):
            dice = random.Random(f"{SEED}.{places}")
            actors = self.cluster(1 + max(places)).group(places)
            graph = Graph(dice, actors, 60, ["daemon"])
            for seed in range(4):
                graph.run(self, seed, f"seed {SEED}")

    def test_bad_ends(self):
        """A wait that is cancelled, a plan that is released, a rank that ends: the other starts continue."""
        waiter, teller, victim = self.cluster(2).group([0, 0, 1], TCA_TIMEOUT="3s")  # how long freeing a plan waits for its start
        forsaken = waiter.plan("await 2 0 1", seat="daemon")
        released = waiter.plan("await 1 1 1", seat="daemon")
        waits = waiter.plan("await 1 2 1", seat="daemon")
        tells = teller.plan("notify 0 2", seat="daemon")
        for plan in (forsaken, released, waits):
            waiter.ask(f"start {plan}")
        with self.refused("-ETIMEDOUT"):
            waiter.ask(f"wait {waits} 50")
        with self.refused("-EBUSY"):
            waiter.ask(f"start {waits}")
        victim.kill()
        with self.refused("-EOWNERDEAD"):
            waiter.ask(f"wait {forsaken} -2")
        other = waiter.plan("await 1 3 1", seat="daemon")  # whose process ends while it waits
        waiter.ask(f"start {other}")
        self.assertTrue(self.running(waiter, released) and self.running(waiter, waits))
        teller.ask(f"start {tells}")
        waiter.ask(f"wait {waits} -2")
        waiter.ask(f"freeplan {released}")
        self.assertEqual(waiter.node.counts()[2], 4)
        waiter.kill()
        harness.until(lambda: teller.node.counts()[0] == 1, "the daemon has let go of the session")


class Cancel(harness.Case):
    """Starts that wait can be cancelled, in both seats; notifications that they have not consumed remain."""

    RAILS = "shm ofi"

    def start(self, actor, plan):
        actor.run(plan)

    def test_cancel(self):
        for seat, places in (("client", [0, 0]), ("daemon", [0, 0]), ("daemon", [0, 1])):
            with self.subTest(seat=seat, places=places):
                waiter, teller = self.cluster(1 + max(places)).group(places, name=f"{seat}{places[1]}")
                tell = [teller.plan(f"notify 0 {slot}") for slot in range(2)]
                plan = waiter.plan("await 1 0 1", "notify 1 1", "await 1 1 1", "notify 1 0", seat=seat)
                for told in ([], [0], [1], [1]):  # of slot 1, one remains each time: no start has consumed it so far
                    waiter.ask(f"start {plan}")
                    for slot in told:
                        self.start(teller, tell[slot])
                        if slot == 0:
                            harness.until(lambda: waiter.ask(f"test {plan}") + teller.ask("count 0 1") == ["0", "1"], "it waits for slot 1")
                            teller.ask("notified_wait 0 1 -2")
                    waiter.ask(f"cancel {plan}")
                    waiter.ask(f"cancel {plan}")
                    with self.refused("-ECANCELED", "start"):
                        waiter.ask(f"wait {plan} -2")
                    waiter.ask(f"cancel {plan}")  # no effect: no start is running
                harness.until(lambda: waiter.ask("count 1 1") == ["2"], "both remain")
                self.start(teller, tell[0])
                self.start(waiter, plan)
                teller.ask("notified_wait 0 0 -2")
                self.assertEqual(teller.ask("count 0 0"), ["0"])

    def test_cancel_rounds(self):
        cluster = self.cluster(1)
        for seat in ("client", "daemon"):
            with self.subTest(seat=seat):
                waiter, teller = cluster.group([0, 0], name=seat)
                tell = teller.plan("notify 0 0")
                plan = waiter.plan("await 1 0 1", "notify 1 0", seat=seat, repeat=True)
                for rounds in (1, 2):
                    waiter.ask(f"start {plan}")
                    self.start(teller, tell)
                    harness.until(lambda: waiter.ask(f"rounds {plan}") == [str(rounds)], "a round")
                    waiter.ask(f"cancel {plan}")
                    with self.refused("-ECANCELED"):
                        waiter.ask(f"wait {plan} -2")


if __name__ == "__main__":
    harness.main()
