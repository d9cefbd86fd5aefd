#!/usr/bin/env python3
"""What was put arrives even if the plan or the process ends before that: the release takes another path than the data."""

import harness

ROUNDS = 40


class Ends(harness.Case):
    RAILS = "shm ofi"

    def one_way(self, sender, receiver, shape, attached=False):
        """A plan's first and only start, from regions that stay."""
        source = (sender.attach if attached else sender.alloc)(1 << 20)
        target = receiver.alloc(1 << 20)
        handle = receiver.handle(target)
        sender.ask(f"fill {source} 0 {1 << 20} 5")

        def commit():
            return sender.plan(f"put {source} 0 {shape} {handle} 0 {shape}", "notify 1 0")
        return commit

    def test_plan_is_freed_after_its_wait(self):
        for shape in ("8", "100000", "1000x8x64"):
            sender, receiver = self.cluster(2).group([0, 1])
            commit = self.one_way(sender, receiver, shape)
            for round in range(ROUNDS):
                with self.subTest(shape=shape, round=round):
                    plan = commit()
                    sender.run(plan)
                    sender.ask(f"freeplan {plan}")
                    receiver.ask("notified_wait 0 0 -2")

    def test_process_ends_after_its_wait(self):
        cluster = self.cluster(2)
        for round in range(ROUNDS // 4):
            with self.subTest(round=round):
                sender, receiver = cluster.group([0, 1], name=f"end{round}")
                plan = self.one_way(sender, receiver, "1000x8x64")()
                sender.run(plan)
                sender.tell("close")
                receiver.ask("notified_wait 0 0 -2")
                with self.refused("-EOWNERDEAD"):  # and only then of its end
                    receiver.ask("notified_wait 0 0 -2")

    def half_way(self, cluster, name):
        """A start that has put to rank 1 and waits before a put to rank 2: the plan, the targets, and the plan that notifies it."""
        sender, first, second = actors = cluster.group([0, 1, 1], name=name)
        source = sender.alloc(1 << 20)
        targets = [actor.alloc(1 << 20) for actor in (first, second)]
        plan = sender.plan(f"put {source} 0 100000 {first.handle(targets[0])} 0 100000", "notify 1 0", "await 2 1 1",
                           f"put {source} 0 100000 {second.handle(targets[1])} 0 100000", "notify 2 0", seat="daemon", landed=True)
        go = second.plan("notify 0 1", seat="daemon")
        sender.ask(f"start {plan}")
        first.ask("notified_wait 0 0 -2")
        return actors, plan, targets, go

    def test_first_of_two_receivers_goes(self):
        """After that notification, the other rank gets its part, too, and the start succeeds; later ones fail."""
        for way, error in (("free", "-ESTALE"), ("close", "-EOWNERDEAD")):
            with self.subTest(way=way):
                (sender, first, second), plan, targets, go = self.half_way(self.cluster(2), way)
                first.ask(f"free {targets[0]}" if way == "free" else "close")
                def is_told():
                    return any(each["state"] == "broken" for each in sender.node.plans())
                harness.until(is_told, "the plan is broken")
                second.ask(f"start {go}")
                second.ask("notified_wait 0 0 -2")
                sender.ask(f"wait {plan} -2")
                with self.refused(error):
                    sender.ask(f"start {plan}")

    def test_second_of_two_receivers_goes(self):
        """A put to the ended rank is still ahead: the start fails at once."""
        (sender, _, second), plan, targets, _ = self.half_way(self.cluster(2), "ahead")
        second.ask(f"free {targets[1]}")
        with self.refused("-ESTALE"):
            sender.ask(f"wait {plan} -2")

    def test_close_takes_nothing_back(self):
        """Freed right after a start, without a wait; a start that would wait for ever delays nothing."""
        cluster = self.cluster(2)
        for round in range(ROUNDS // 4):
            with self.subTest(round=round):
                sender, receiver = cluster.group([0, 1], name=f"close{round}")
                plan = self.one_way(sender, receiver, "1000x8x64", attached=True)()  # its process copies the data first
                gate = sender.plan("await 1 3 1", seat="daemon", channel=2)
                sender.ask(f"start {gate}")
                sender.ask(f"start {plan}")
                sender.tell("close")
                receiver.ask("notified_wait 0 0 -2")


if __name__ == "__main__":
    harness.main()
