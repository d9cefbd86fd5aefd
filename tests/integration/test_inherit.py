#!/usr/bin/env python3
"""Commits like one that was just released: they take over what that one has bound at other nodes, and nothing else."""

import contextlib
import random
import time

import harness
from actors import Failed
from connections import cut_off
from harness import until

ONE, OTHER = "tcp:lo", "tcp:b"  # without calibration, the first is preferred
TWO_RAILS = {"rails.enable": "shm tcp", "rails.tcp_security": "plain", f"rail {OTHER}.driver": "tcp", f"rail {OTHER}.plane": "b",
             f"rail {OTHER}.security": "plain", "rails.return_after": "200ms"}
SIZE = 1 << 16
LONG = str(SIZE)  # longer than puts that complete once they are copied: a lost rail breaks no plan
TRIES = 20  # the release of a plan waits a millisecond for others: a test that is late tries again


class Inherit(harness.Case):
    def setUp(self):
        super().setUp()
        self.committed = 0

    def two(self, options=None):
        self.nodes = self.cluster(2, options=options or {"rails.enable": "shm tcp"})
        self.sender, self.receiver = self.nodes.group([0, 1])
        self.source, self.target = self.sender.alloc(SIZE), self.receiver.alloc(SIZE)
        self.handle = self.receiver.handle(self.target)

    def inherited(self):
        return self.nodes[0].metric("tcad_plans_inherited")

    def put(self, at=0, shape="64", target=0, target_shape="64", handle=None):
        return f"put {{plan}} {self.source} {at} {shape} {handle or self.handle} {target} {target_shape}"

    def lines(self, steps, number, timeout_ms=-1, rail="any"):
        yield f"plan message {rail} daemon 0"
        yield from (step.format(plan=number) for step in steps)
        yield f"commit {number} {timeout_ms}"

    def at_once(self, lines):
        """Commands that the sender executes without waiting in between."""
        lines = list(lines)
        self.sender.tell("\n".join(lines))
        failed = None
        for _ in lines:
            try:
                self.sender.answer()
            except Failed as error:
                failed = failed or error
        if failed:
            raise failed

    def commit(self, *steps, **options):
        self.committed += 1
        self.at_once(self.lines(steps, self.committed - 1, **options))
        return self.committed - 1

    def commit_after(self, former, *steps, use=(), **options):
        """Frees a plan and commits another; use: of the former one, before that."""
        self.committed += 1
        number = self.committed - 1
        self.at_once([*(line.format(plan=former) for line in use), f"freeplan {former}", *self.lines(steps, number, **options)])
        return number

    def run_plan(self, plan):
        self.at_once([f"start {plan}", f"wait {plan} -1"])

    def test_without_a_question(self):
        """The other daemon is stopped: nobody could answer."""
        self.two()
        self.sender.ask(f"fill {self.source} 0 64 1")
        steps = self.put(), "notify {plan} 1 3"
        for _ in range(TRIES):
            before = self.inherited()
            plan = self.commit(*steps)
            self.run_plan(plan)
            self.receiver.ask("notified_wait 0 3 -1")
            self.nodes[1].pause()
            try:
                plan = self.commit_after(plan, *steps, timeout_ms=1000)
            except Failed as error:
                self.assertEqual(error.name, "-ETIMEDOUT")
                plan = None
            finally:
                self.nodes[1].resume()
            if plan is None:
                continue
            self.assertEqual(self.inherited(), before + 1)
            self.sender.ask(f"fill {self.source} 0 64 2")
            self.run_plan(plan)
            self.receiver.ask("notified_wait 0 3 -1")
            self.receiver.ask(f"check {self.target} 0 64 2")
            return
        self.fail("every commit asked")

    def test_of_former_commits(self):
        """A plan that was never started, between one that was and its release, which must not overtake the data."""
        self.two()
        steps = (self.put(),)
        missed = 0
        for i in range(1, 3 * TRIES):
            former, before = self.commit(*steps), self.inherited()
            self.run_plan(former)  # connects
            self.sender.ask(f"fill {self.source} 0 64 {i}")
            self.nodes[1].pause()
            try:
                plan = self.commit_after(former, *steps, use=("start {plan}", "wait {plan} -1"), timeout_ms=300)
                self.at_once([f"freeplan {plan}"])
                time.sleep(0.01)  # both are released as far as that is possible
            except Failed as error:
                self.assertEqual(error.name, "-ETIMEDOUT")
            finally:
                self.nodes[1].resume()
            missed += self.inherited() == before
            until(lambda i=i: self.holds(0, "64", i), "the put has arrived")
        self.assertLess(missed, 3 * TRIES - 1)

    def test_only_alike(self):
        self.two()
        other = self.receiver.handle(self.receiver.alloc(SIZE))
        steps = self.put(), "notify {plan} 1 3"
        more = *steps, "notify {plan} 1 4"
        different = [(self.put(target=8), steps[1]), (self.put(shape="32", target_shape="32"), steps[1]),
                     (self.put(target_shape="8x8x16"), steps[1]), (self.put(handle=other), steps[1]), (steps[0], "notify {plan} 1 4"),
                     (steps[0],), (steps[1],)]
        plan = self.commit(*steps)
        for one in different:
            before = self.inherited()
            plan = self.commit_after(plan, *one)
            self.assertEqual(self.inherited(), before, one)
            time.sleep(0.01)  # nothing is left of the plan before that one, which is like the next
            plan = self.commit_after(plan, *steps)
            self.assertEqual(self.inherited(), before, one)
        plan = self.commit_after(plan, *more)
        self.assertEqual(self.inherited(), before)
        plan = self.take_over(self.commit_after(plan, *steps), steps)
        self.take_over(plan, (self.put(at=128), steps[1]))  # another source

    def test_random_messages(self):
        """Of some kinds in any order; each has its own bytes at its own place, whatever it takes over from which plan."""
        self.two()
        chance = random.Random(5)
        kinds = [(slot, place, shape) for slot in (0, 1) for place in (0, 1024, 2048) for shape in ("700", "70x10x10")]
        before = [node.counts() for node in self.nodes.nodes]
        plan = None
        for i in range(15 * TRIES):
            slot, place, shape = chance.choice(kinds)
            self.sender.ask(f"fill {self.source} 0 700 {i % 250}")
            steps = self.put(shape="700", target=place, target_shape=shape), f"notify {{plan}} 1 {slot}"
            use = ("start {plan}", "wait {plan} -1")
            plan = self.commit(*steps) if plan is None else self.commit_after(plan, *steps, use=use if chance.random() < 0.3 else ())
            if chance.random() < 0.5:
                continue
            self.run_plan(plan)
            while self.receiver.ask(f"count 0 {slot}") == ["0"]:
                pass
            self.receiver.ask(f"notified_wait 0 {slot} -1")
            until(lambda i=i, place=place, shape=shape: self.holds(place, shape, i % 250), "the put has arrived")
        self.assertGreater(self.inherited(), 0)
        self.at_once([f"freeplan {plan}"])
        for node, counts in zip(self.nodes.nodes, before):
            until(lambda node=node, counts=counts: node.counts() == counts, "everything is released")

    def holds(self, place, shape, value):
        try:
            self.receiver.ask(f"check {self.target} {place} {shape} {value}")
        except Failed:
            return False
        return True

    def test_target_has_gone(self):
        self.two()
        steps = (self.put(),)
        former = self.commit(*steps)
        self.run_plan(former)
        self.receiver.ask(f"free {self.target}")
        self.target = self.receiver.alloc(SIZE)
        fresh = self.receiver.handle(self.target)
        until(lambda: any(plan["state"] == "broken" for plan in self.nodes[0].plans()), "the news has arrived")
        with self.refused("-ESTALE"):
            self.commit_after(former, *steps)
        steps = (self.put(handle=fresh),)
        former = self.commit(*steps)
        self.receiver.kill()
        until(lambda: any(plan["state"] == "broken" for plan in self.nodes[0].plans()), "the news has arrived")
        with self.refused("-ESTALE"):
            self.commit_after(former, *steps)

    def test_a_lost_rail(self):
        """What was taken over holds for all rails. A plan away from its rail passes nothing on: a new one may find that rail."""
        self.two(options=TWO_RAILS)
        steps = self.put(shape=LONG, target_shape=LONG), "notify {plan} 1 3"
        plan = self.take_over(self.commit(*steps), steps)
        with cut_off(self.nodes.nodes, ONE):
            def lost():
                with contextlib.suppress(Failed):
                    self.run_plan(plan)
                return f"rail {ONE} to node 1 was lost" in self.nodes[0].log_text()

            until(lost, "the rail is lost")
            self.sender.ask(f"fill {self.source} 0 {LONG} 7")
            self.run_plan(plan)
            self.assertEqual(self.sender.receipt(plan)["name"], OTHER)
            until(lambda: self.holds(0, LONG, 7), "the put has arrived")
            before = self.inherited()
            self.commit_after(plan, *steps)
            self.assertEqual(self.inherited(), before)

    def take_over(self, plan, steps):
        """Commits until one has taken over what the one before had."""
        before = self.inherited()
        for _ in range(TRIES):
            plan = self.commit_after(plan, *steps)
            if self.inherited() > before:
                return plan
        return self.fail("never taken over")


if __name__ == "__main__":
    harness.main()
