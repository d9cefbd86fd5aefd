#!/usr/bin/env python3
"""Puts by daemons from and into attached memory: the processes that own it copy, as their daemons request
(daemon/sessions/bounce.h)."""

import os
import signal
import time

import harness
from harness import Failed, Stream
from test_attached import check_every_side, check_gaps


# The two cases: to another node, and within one in the daemon's seat.
PLACES = (([0, 1], "any"), ([0, 0], "daemon"))


class Bounces(harness.Case):
    RAILS = "shm ofi"

    def test_every_side(self):
        for nodes, seat in PLACES:
            check_every_side(self, *self.cluster(2).group(nodes), seat)

    def test_gaps_stay_as_they_are(self):
        for nodes, seat in PLACES:
            check_gaps(self, *self.cluster(2).group(nodes), seat)

    def test_many_puts(self):
        """More puts than the rings between daemon and process hold, all of them complete when the notification after them
        arrives."""
        puts = 450
        for nodes, seat in PLACES:
            sender, receiver = self.cluster(2).group(nodes)
            source = sender.attach(1 << 16)
            target = receiver.attach(1 << 16)
            handle = receiver.handle(target)
            plan = sender.plan(*(f"put {source} {64 * i} 64 {handle} {64 * i} 64" for i in range(puts)), "notify 1 2", seat=seat)
            for seed in range(5):
                sender.ask(f"fill {source} 0 {64 * puts} {seed}")
                sender.ask(f"start {plan}")
                receiver.ask("notified_wait 0 2 -2")
                receiver.ask(f"check {target} 0 {64 * puts} {seed}")
                sender.ask(f"wait {plan} -2")

    def test_more_puts_than_messages_may_wait(self):
        """A commit tells both processes of each put, and a release tells them again: as fast as they read, without dropping
        the one that computes."""
        puts = 3000
        for nodes, seat in PLACES:
            sender, receiver = self.cluster(2).group(nodes)
            source = sender.attach(1 << 16)
            target = receiver.attach(1 << 16)
            handle = receiver.handle(target)
            with self.subTest(nodes=nodes):
                receiver.tell("notified_wait 0 2 -2")
                plan = sender.plan(*(f"put {source} {16 * i} 16 {handle} {16 * i} 16" for i in range(puts)), "notify 1 2", seat=seat)
                sender.ask(f"fill {source} 0 {16 * puts} 7")
                sender.ask(f"start {plan}")
                receiver.answer()
                receiver.ask(f"check {target} 0 {16 * puts} 7")
                sender.ask(f"wait {plan} -2")
                sender.ask(f"freeplan {plan}")
                time.sleep(0.5)  # the receiver does not call the library
                receiver.ask("count 0 2")
                again = sender.plan(f"put {source} 0 4096 {handle} 0 4096", "notify 1 2", seat=seat)
                sender.ask(f"start {again}")
                receiver.ask("notified_wait 0 2 -2")

    def test_a_process_that_reads_nothing(self):
        """Commits do not wait for it for ever, and it loses nothing."""
        for nodes, seat in PLACES:
            sender, receiver = self.cluster(2).group(nodes)
            source = sender.alloc(1 << 16)
            target = receiver.attach(1 << 16)
            handle = receiver.handle(target)
            puts = [f"put {source} {16 * i} 16 {handle} {16 * i} 16" for i in range(3000)]
            with self.subTest(nodes=nodes):
                harness.stop(receiver.process.pid)
                with self.assertRaisesRegex(Failed, "-EBUSY.*has not read"):
                    sender.plan(*puts, "notify 1 2", seat=seat)
                receiver.process.send_signal(signal.SIGCONT)
                receiver.tell("notified_wait 0 2 -2")
                sender.ask(f"start {sender.plan(*puts, 'notify 1 2', seat=seat)}")
                receiver.answer()

    def test_passed_on_while_nobody_looks(self):
        """The daemon in the middle waits for what arrives in attached memory and passes it on from there, while its process
        computes."""
        for nodes in ([0, 1, 2], [0, 0, 0]):
            first, middle, last = self.cluster(3).group(nodes)
            source = first.attach(1 << 20)
            passed = middle.attach(1 << 20)
            target = last.attach(1 << 20)
            put = first.plan(f"put {source} 0 500000 {middle.handle(passed)} 0 500000", "notify 1 3", seat="daemon")
            relay = middle.plan("await 0 3 1", f"put {passed} 0 500000 {last.handle(target)} 0 500000", "notify 2 4", seat="daemon")
            for seed in range(3):
                first.ask(f"fill {source} 0 500000 {seed}")
                middle.ask(f"start {relay}")
                middle.tell("sleep 100")  # outside of the library
                first.ask(f"start {put}")
                last.ask("notified_wait 1 4 -2")
                last.ask(f"check {target} 0 500000 {seed}")
                middle.answer()
                middle.ask(f"wait {relay} -2")
                first.ask(f"wait {put} -2")

    def test_own_memory(self):
        """When a start is complete, what it has put into memory that its own process has attached is there."""
        size = 16 << 20
        owner, other = self.cluster(2).group([0, 1])
        source, target, far = owner.alloc(size), owner.attach(size), other.attach(size)
        own = f"put {source} 0 {size} {owner.handle(target)} 0 {size}"
        there = f"put {source} 0 64 {other.handle(far)} 0 64"
        for steps in ([own], [own, there, "notify 1 0"], [there, own], [own, "flush", there]):
            plan = owner.plan(*steps, seat="daemon")
            for seed in range(3):
                with self.subTest(steps=steps, seed=seed):
                    owner.ask(f"fill {source} {size - 4096} 4096 {seed}")
                    for command in (f"start {plan}", f"wait {plan} -2", f"check {target} {size - 4096} 4096 {seed}"):
                        owner.tell(command)  # at once, so that the check follows the wait
                    for _ in range(3):
                        owner.answer()

    def test_told_to_others(self):
        """A process that has not attached the memory is notified of the data, too, but not before it is there."""
        for nodes in ([0, 1, 1], [0, 1, 2], [0, 0, 0], [0, 1, 0]):
            sender, owner, other = self.cluster(3).group(nodes)
            source = sender.alloc(1 << 20)
            target = owner.attach(1 << 20)
            plan = sender.plan(f"put {source} 0 700000 {owner.handle(target)} 0 700000", "notify 2 0", "notify 1 0", seat="daemon")
            owner.ask("count 0 0")  # it has heard of the plan
            for seed in range(10):
                sender.ask(f"fill {source} 0 700000 {seed}")
                sender.ask(f"start {plan}")
                other.ask("notified_wait 0 0 -2")
                owner.ask(f"check {target} 0 700000 {seed}")
                owner.ask("notified_wait 0 0 -2")
                sender.ask(f"wait {plan} -2")

    def test_quota(self):
        """Staging buffers count against the quota; the error names the remedy, and requests within the quota still succeed."""
        cluster = self.cluster(2, options={"memory.region_bytes_per_user": "1M"})
        sender, receiver = cluster.group([0, 1])
        large = sender.attach(2 << 20)
        small = sender.attach(1000)
        far_large = receiver.attach(2 << 20)
        far = receiver.attach(1000)
        with self.refused("-EDQUOT", "region_bytes_per_user", "attach", "1048576"):
            sender.plan(f"put {large} 0 64 {receiver.handle(far)} 0 64", "notify 1 0")
        with self.refused("-EDQUOT", "region_bytes_per_user", "attach", "node 1"):
            sender.plan(f"put {small} 0 64 {receiver.handle(far_large)} 0 64", "notify 1 0")
        for _ in range(60):  # each releases what it has taken
            region = sender.attach(500000)
            plan = sender.plan(f"put {region} 0 64 {receiver.handle(far)} 0 64", "notify 1 0")
            sender.run(plan)
            sender.ask(f"freeplan {plan}")
            sender.ask(f"free {region}")
        harness.until(lambda: receiver.ask("count 0 0") == ["60"], "all have been there")

    def test_freed_while_others_put(self):
        """After its process has ended, the memory is not touched any more, and the others are notified."""
        sender, receiver = self.cluster(2).group([0, 1])
        source = sender.attach(1 << 20)
        target = receiver.attach(1 << 20)
        plan = sender.plan(f"put {source} 0 900000 {receiver.handle(target)} 0 900000", "notify 1 0")
        sender.tell(f"repeat {plan} 0")
        time.sleep(0.2)
        receiver.ask(f"free {target}")
        with self.assertRaises(Failed) as caught:
            sender.answer()
        self.assertEqual(caught.exception.name, "-ESTALE", caught.exception.text)
        self.assertEqual(Stream(sender, receiver, attached=(True, True), slot=1).run(3), 3)

    def test_a_stopped_process_holds_up_nobody(self):
        """Puts into its memory wait for this process, and other puts do not; then all of them arrive."""
        cluster = self.cluster(2)
        sender, stopped, other = cluster.group([0, 1, 1])
        source = sender.alloc(1 << 20)
        target = stopped.attach(1 << 20)
        plan = sender.plan(f"put {source} 0 300000 {stopped.handle(target)} 0 300000", "notify 1 0")
        stopped.ask("count 0 0")  # it has heard of the plan
        harness.stop(stopped.pid)
        try:
            for seed in range(400):
                sender.ask(f"fill {source} 0 300000 {seed}" if seed % 100 == 99 else f"set {source} 0 1 {seed % 256}")
                sender.run(plan)
            self.assertEqual(Stream(sender, other, ranks=(0, 2), attached=(True, True), slot=1).run(5), 5)
        finally:
            os.kill(stopped.pid, signal.SIGCONT)
        for _ in range(400):
            stopped.ask("notified_wait 0 0 -2")
        stopped.ask(f"check {target} 0 300000 399")
        self.assertEqual(int(stopped.ask("count 0 0")[0]), 0)

    def test_a_stopped_process_and_the_end_of_a_sender(self):
        """Data that was put and notified counts, though its sender has ended before the process copies it: for that process, for
        another one that is notified of it, and for a plan that waits for it. No other process has to wait."""
        for nodes, seat in (([0, 1, 1, 1], "any"), ([0, 0, 0, 0], "daemon")):
            for how in ("end", "kill"):
                with self.subTest(nodes=nodes, how=how):
                    sender, stopped, told, witness = self.cluster(2).group(nodes)
                    size = 8 << 20
                    source = sender.alloc(size)
                    target = stopped.attach(3 * size)
                    handle = stopped.handle(target)
                    puts = [f"put {source} 0 {size} {handle} {i * size} {size}" for i in range(3)]
                    plan = sender.plan(puts[0], "notify 2 0", puts[1], "notify 2 1", puts[2], "notify 1 0", seat=seat)
                    relay = told.plan("await 0 1 1", "notify 3 0", seat="daemon")
                    told.ask(f"start {relay}")
                    answer = told.plan("await 0 2 1", f"put {told.alloc(64)} 0 64 {sender.handle(source)} 0 64", seat="daemon")
                    told.ask(f"start {answer}")
                    sender.ask(f"fill {source} 0 {size} 5")
                    stopped.ask("count 0 0")  # it has heard of the plan
                    harness.stop(stopped.pid)
                    try:
                        sender.run(plan)
                        getattr(sender, how)()
                        with self.refused("-EOWNERDEAD"):
                            witness.ask("notified_wait 0 0 -2")
                        told.tell("notified_wait 0 0 -2")
                    finally:
                        os.kill(stopped.pid, signal.SIGCONT)
                    stopped.ask("notified_wait 0 0 -2")
                    stopped.ask(f"check {target} {2 * size} {size} 5")
                    told.answer()
                    witness.ask("notified_wait 2 0 -2")
                    told.ask(f"wait {relay} -2")
                    for actor in (stopped, told):  # and then the end is known
                        with self.refused("-EOWNERDEAD"):
                            actor.ask("notified_wait 0 0 -2")
                    with self.refused("-EOWNERDEAD"):  # rather than that the sender's memory was freed
                        told.ask(f"wait {answer} -2")

    def test_killed(self):
        for nodes, seat in (([0, 0], "daemon"), ([0, 1], "any")):
            for victim in (0, 1):
                cluster = self.cluster(2)
                actors = cluster.group(nodes)
                stream = Stream(*actors, shape="500000", attached=(True, True), seat=seat)
                stream.begin()
                time.sleep(0.2)
                actors[victim].kill()
                with self.assertRaises(Failed) as caught:
                    actors[1 - victim].answer()
                self.assertEqual(caught.exception.name, "-EOWNERDEAD", caught.exception.text)
                harness.until(lambda: sum(node.counts()[0] for node in cluster.nodes) == 1, "its session is gone")


if __name__ == "__main__":
    harness.main()
