#!/usr/bin/env python3
"""Remote completion of starts: what another process sees then without a notification."""


import harness
from harness import Failed

SHAPES = [("8", "8"), ("65536", "65536"), ("64x32x128", "2048"), ("500x8x1600", "500x8x800"), ("900001", "900001")]


def arrived(actor, mark, seed):
    try:
        actor.ask(f"check {mark} 0 8 {seed}")
        return True
    except Failed:
        return False


class Landed(harness.Case):
    RAILS = "shm ofi"

    def rounds(self, sender, receivers, seat="any", attached=()):
        """`attached`: the receivers whose memory is attached."""
        size = 1 << 20
        source = sender.alloc(size)
        targets = [(receiver.attach if receiver in attached else receiver.alloc)(size) for receiver in receivers]
        for shape, target_shape in SHAPES:
            with self.subTest(shape=shape, target_shape=target_shape):
                puts = [f"put {source} 0 {shape} {receiver.handle(target)} 0 {target_shape}" for receiver, target in zip(receivers, targets)]
                plan = sender.plan(*puts, seat=seat, landed=True)
                for receiver in attached:
                    receiver.ask("count 0 0")  # it knows the plan, and now computes
                for seed in range(10):
                    sender.ask(f"fill {source} 0 {shape} {seed}")
                    sender.run(plan)
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

    def test_in_attached_memory(self):
        """Targets on other nodes, on this one and in the sender itself; beside memory that is not attached."""
        sender, *receivers = self.cluster(3).group([0, 1, 2, 0, 1])
        self.rounds(sender, [*receivers, sender], attached=[receivers[0], receivers[2], receivers[3], sender])

    def test_an_ordered_put_comes_after_attached_memory(self):
        """In another process's daemon-allocated memory."""
        for nodes in ([0, 0, 0], [0, 1, 2], [0, 1, 1]):
            sender, owner, other = self.cluster(3).group(nodes)
            source = sender.alloc(1 << 20)
            data = owner.attach(1 << 20)
            mark = other.alloc(4096)
            plan = sender.plan(f"put {source} 0 900000 {owner.handle(data)} 0 900000", f"put {source} 0 8 {other.handle(mark)} 0 8 ordered",
                               seat="daemon", landed=True)
            owner.ask("count 0 0")
            for seed in range(1, 10):
                sender.ask(f"fill {source} 0 900000 {seed}")
                sender.ask(f"start {plan}")
                harness.until(lambda: arrived(other, mark, seed), "the mark is there")
                owner.ask(f"check {data} 0 900000 {seed}")
                sender.ask(f"wait {plan} -2")

    def behind_a_stopped_node(self, *steps):
        """A put to a stopped daemon waits; a later start on another channel does not."""
        cluster = self.cluster(3)
        sender, owner, other = cluster.group([0, 1, 2])
        source = sender.alloc(4096)
        data = owner.alloc(4096)
        mark = other.alloc(4096)
        places = {"data": f"put {source} 0 64 {owner.handle(data)} 0 64", "mark": f"put {source} 0 8 {other.handle(mark)} 0 8"}
        plan = sender.plan(*(step.format(**places) for step in steps), seat="daemon")
        later = sender.plan("notify 2 1", seat="daemon", channel=1)
        for seed in range(1, 4):
            sender.ask(f"fill {source} 0 64 {seed}")
            cluster[1].pause()
            sender.ask(f"start {plan}")
            sender.ask(f"start {later}")
            other.ask("notified_wait 0 1 -1")
            self.assertEqual(other.ask("count 0 0"), ["0"])
            self.assertFalse(arrived(other, mark, seed))
            cluster[1].resume()
            sender.ask(f"wait {plan} -1")
            other.ask("notified_wait 0 0 -1")
            owner.ask(f"check {data} 0 64 {seed}")

    def test_a_flush_holds_up_what_follows(self):
        self.behind_a_stopped_node("{data}", "flush", "{mark}", "notify 2 0")

    def test_an_ordered_put_comes_after_other_nodes(self):
        self.behind_a_stopped_node("{data}", "{mark} ordered", "notify 2 0")

    def test_a_flush_of_nothing(self):
        sender, = self.cluster(1).group([0])
        sender.run(sender.plan("flush", "notify 0 0", "chain", "flush"))
        sender.ask("notified_wait 0 0 -2")

    def test_of_a_process_that_is_killed(self):
        """Its memory takes the data while it is stopped; then starts fail."""
        for nodes in ([0, 0], [0, 1]):
            sender, owner = self.cluster(2).group(nodes)
            source = sender.alloc(4096)
            target = owner.attach(4096)
            plan = sender.plan(f"put {source} 0 64 {owner.handle(target)} 0 64", landed=True)
            harness.stop(owner.pid)
            sender.run(plan)
            owner.kill()
            with self.refused("-EOWNERDEAD"):
                while True:
                    sender.run(plan)


if __name__ == "__main__":
    harness.main()
