#!/usr/bin/env python3
"""What was put lands, also when the plan, or the process, is gone before it does: the word that lets go takes another way than the data."""

import harness

ROUNDS = 40


class Ends(harness.Case):
    def one_way(self, sender, receiver, shape):
        """A plan's first and only start, from regions that stay."""
        source, _ = sender.alloc(1 << 20)
        target, _ = receiver.alloc(1 << 20)
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
                    sender.ask(f"start {plan}")
                    sender.ask(f"wait {plan} -2")
                    sender.ask(f"freeplan {plan}")
                    receiver.ask("notified_wait 0 0 -2")

    def test_process_ends_after_its_wait(self):
        cluster = self.cluster(2)
        for round in range(ROUNDS // 4):
            with self.subTest(round=round):
                sender, receiver = cluster.group([0, 1], name=f"end{round}")
                plan = self.one_way(sender, receiver, "1000x8x64")()
                sender.ask(f"start {plan}")
                sender.ask(f"wait {plan} -2")
                sender.tell("close")
                receiver.ask("notified_wait 0 0 -2")
                with self.refused("-EOWNERDEAD"):  # and only then of its end
                    receiver.ask("notified_wait 0 0 -2")


if __name__ == "__main__":
    harness.main()
