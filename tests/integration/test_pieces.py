#!/usr/bin/env python3
"""Long puts go in pieces: later starts on another channel do not wait for them, and all other order is kept."""

import harness

GUARD = 0x5A


class Pieces(harness.Case):
    PLANS, ROUNDS = 8, harness.rounds(3)

    def crowd(self, actors, shape, part, seat, ordered):
        """Long and short puts at once (actor/crowd.c): how many were overtaken."""
        sender, receiver = actors
        source = sender.alloc(self.PLANS * part)
        target = receiver.alloc(self.PLANS * part)
        receiver.ask(f"set {target} 0 {self.PLANS * part} {GUARD}")
        handle = receiver.handle(target)
        plans = []
        for number in range(self.PLANS):
            place, data = number * part, "8" if number % 2 else shape
            plans.append(sender.plan(f"put {source} {place} {data} {handle} {place} {data}",
                                     f"put {source} {place + part - 8} 8 {handle} {place + part - 8} 8",
                                     f"notify 1 {number}", seat=seat, channel=number // 2, timed=True))
        self.assertEqual(plans, list(range(plans[0], plans[0] + self.PLANS)))
        ack = receiver.plan("notify 0 0")
        receiver.tell(f"crowded {target} {part} {shape} {ack} {self.ROUNDS} {int(ordered)} {GUARD}")
        sender.tell(f"crowd {plans[0]} {source} {part} {shape} 1 0 {self.ROUNDS}")
        rounds, overtaken = sender.answer()
        self.assertEqual((rounds, receiver.answer()), (str(self.ROUNDS), [str(self.ROUNDS)]))
        for plan in plans:
            sender.ask(f"freeplan {plan}")
        receiver.ask(f"freeplan {ack}")
        sender.ask(f"free {source}")
        receiver.ask(f"free {target}")
        return int(overtaken)

    def both_shapes(self, actors, seat, ordered):
        for shape in ("5000000", "5000x1000x1040", "700001x8x16i"):
            with self.subTest(shape=shape):
                self.assertGreater(self.crowd(actors, shape, 12 << 20, seat, ordered), 0, "nothing passed a long put")

    def test_daemons_seat(self):
        self.both_shapes(self.cluster(1).group([0, 0]), "daemon", True)

    def test_other_node(self):
        self.both_shapes(self.cluster(2).group([0, 1]), "daemon", True)

    def test_clients_seat(self):
        cluster = self.cluster(1)
        for way in ("push", "pull", "half", "ring", "any"):
            with self.subTest(way=way):
                self.both_shapes(cluster.group([0, 0], name=way, TCA_COPY=way), "client", False)

    def test_chain_goes_elsewhere(self):
        """A chain's notification to one process follows its data to another."""
        for way in ("push", "half"):
            sender, holder, told = self.cluster(1).group([0, 0, 0], TCA_COPY=way)
            plan, source, target = sender.put_plan(holder, 8000000, "notify 2 3", seat="client", region_bytes=8 << 20)
            for seed in range(5):
                sender.ask(f"fill {source} 0 8000000 {seed}")
                sender.ask(f"start {plan}")
                sender.tell(f"wait {plan} -2")
                told.ask("notified_wait 0 3 -2")
                holder.ask(f"check {target} 0 8000000 {seed}")
                sender.answer()

    def test_left_to_itself(self):
        """A sender that ends in the middle of a long put affects no other; freeing its plan completes the put first."""
        cluster = self.cluster(1)
        sender, receiver = cluster.group([0, 0])
        source = sender.alloc(32 << 20)
        target = receiver.alloc(32 << 20)
        for seed in range(3):
            plan = sender.plan(f"put {source} 0 {32 << 20} {receiver.handle(target)} 0 {32 << 20}", "notify 1 0", seat="client")
            sender.ask(f"fill {source} 0 {32 << 20} {seed}")
            sender.ask(f"start {plan}")
            sender.ask(f"freeplan {plan}")
            receiver.ask("notified_wait 0 0 -2")
            receiver.ask(f"check {target} 0 {32 << 20} {seed}")
        plan = sender.plan(f"put {source} 0 {32 << 20} {receiver.handle(target)} 0 {32 << 20}", "notify 1 0", seat="client")
        sender.ask(f"start {plan}")
        sender.kill()
        with self.refused("-EOWNERDEAD"):
            receiver.ask("notified_wait 0 0 -2")


if __name__ == "__main__":
    harness.main()
