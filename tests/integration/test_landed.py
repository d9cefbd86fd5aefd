#!/usr/bin/env python3
"""Starts that are complete when all has landed: what another process sees then, which no notification has told."""

import harness

SHAPES = [("8", "8"), ("65536", "65536"), ("64x32x128", "2048"), ("500x8x1600", "500x8x800"), ("900001", "900001")]


class Landed(harness.Case):
    def rounds(self, sender, receivers, seat="any"):
        size = 1 << 20
        source, _ = sender.alloc(size)
        targets = [receiver.alloc(size)[0] for receiver in receivers]
        for shape, target_shape in SHAPES:
            with self.subTest(shape=shape, target_shape=target_shape):
                puts = [f"put {source} 0 {shape} {receiver.handle(target)} 0 {target_shape}" for receiver, target in zip(receivers, targets)]
                plan = sender.plan(*puts, seat=seat, landed=True)
                for seed in range(10):
                    sender.ask(f"fill {source} 0 {shape} {seed}")
                    sender.ask(f"start {plan}")
                    sender.ask(f"wait {plan} -2")
                    for receiver, target in zip(receivers, targets):
                        receiver.ask(f"check {target} 0 {target_shape} {seed}")
                sender.ask(f"freeplan {plan}")

    def test_on_other_nodes(self):
        sender, *receivers = self.cluster(3).group([0, 1, 2, 0])
        self.rounds(sender, receivers)

    def test_on_the_own_node(self):
        sender, *receivers = self.cluster(1).group([0, 0, 0])
        for seat in ("client", "daemon"):
            with self.subTest(seat=seat):
                self.rounds(sender, [*receivers, sender], seat)

    def test_not_into_attached_memory(self):
        sender, receiver = self.cluster(1).group([0, 0])
        source, _ = sender.alloc(4096)
        target, _ = receiver.attach(4096)
        with self.refused("-EOPNOTSUPP", "attached", "TCA_PLAN_LANDED"):
            sender.plan(f"put {source} 0 8 {receiver.handle(target)} 0 8", landed=True)

    def test_not_into_attached_memory_of_another_node(self):
        sender, receiver = self.cluster(2).group([0, 1])
        source, _ = sender.alloc(4096)
        target, _ = receiver.attach(4096)
        with self.refused("-EOPNOTSUPP", "attached", "TCA_PLAN_LANDED"):
            sender.plan(f"put {source} 0 8 {receiver.handle(target)} 0 8", landed=True)


if __name__ == "__main__":
    harness.main()
