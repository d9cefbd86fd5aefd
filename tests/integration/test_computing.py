#!/usr/bin/env python3
"""The client's seat between nodes without a request for it, and while programs compute."""

import os
import shutil
import signal
import tempfile
import time

import harness
from connections import reset
from harness import Failed, Stream, until
from test_pairs import end_all

COMPUTE_MS = 2500


class Computing(harness.Case):
    def pair(self, security="plain", **options):
        return self.cluster(2, options={"rails.enable": "shm tcp", "rails.tcp_security": security, **options})

    def seat_of(self, stream):
        receipt = stream.sender.receipt(stream.plan)
        return receipt["rail"], receipt["seat"]

    def computes(self, actor):
        """Outside of the library, for a time; answer() ends it."""
        actor.tell(f"sleep {COMPUTE_MS}")
        return time.monotonic() + COMPUTE_MS / 1000

    def test_the_default(self):
        for security in ("plain", "tls"):
            stream = Stream(*self.pair(security).group([0, 1]), shape="4096")
            self.assertEqual(stream.run(5), 5)
            self.assertEqual(self.seat_of(stream), ("tcp", "client"))

    def test_the_receiver_computes(self):
        """The sender commits, starts and completes meanwhile, more than sockets hold."""
        for security in ("plain", "tls"):
            with self.subTest(security=security):
                sender, receiver = self.pair(security).group([0, 1])
                source = sender.alloc(32 << 20)
                target = receiver.alloc(32 << 20)
                handle = receiver.handle(target)
                sender.ask(f"set {source} 0 {32 << 20} 7")
                end = self.computes(receiver)
                for size in (4096, 32 << 20):
                    plan = sender.plan(f"put {source} 0 {size} {handle} 0 {size}", "notify 1 0")
                    sender.run(plan, -1)
                    self.assertEqual(sender.receipt(plan)["seat"], "client")
                self.assertLess(time.monotonic(), end, "it waited for the receiver")
                receiver.answer()
                for _ in range(2):
                    receiver.ask("notified_wait 0 0 -1")
                receiver.ask(f"same {target} {(32 << 20) - 4096} 4096 7")

    def test_the_sender_computes(self):
        """What it has started arrives meanwhile."""
        for security in ("plain", "tls"):
            with self.subTest(security=security):
                sender, receiver = self.pair(security).group([0, 1])
                plan, _, _ = sender.put_plan(receiver, 32 << 20, "notify 1 0")
                for _ in range(3):
                    receiver.tell("notified_wait 0 0 -1")
                    sender.ask(f"start {plan}")
                    end = self.computes(sender)
                    receiver.answer()
                    self.assertLess(time.monotonic(), end, "it waited for the sender")
                    sender.answer()
                    sender.ask(f"wait {plan} -1")

    def test_short_ones_that_gather(self):
        """A burst of starts, the last of which are kept to be written together."""
        sender, receiver = self.pair().group([0, 1])
        source = sender.alloc(1 << 20)
        target = receiver.alloc(1 << 20)
        handle = receiver.handle(target)
        plans = [sender.plan(f"put {source} {64 * i} 64 {handle} {64 * i} 64", "notify 1 0") for i in range(16)]
        for _ in range(3):
            for plan in plans:
                sender.ask(f"start {plan}")
            end = self.computes(sender)
            for _ in plans:
                receiver.ask("notified_wait 0 0 -1")
            self.assertLess(time.monotonic(), end)
            sender.answer()
            for plan in plans:
                sender.ask(f"wait {plan} -1")

    def test_both_compute(self):
        sender, receiver = self.pair().group([0, 1])
        plan, source, target = sender.put_plan(receiver, 32 << 20, "notify 1 0")
        sender.ask(f"set {source} 0 {32 << 20} 9")
        sender.ask(f"start {plan}")
        self.computes(receiver)
        self.computes(sender)
        receiver.answer()
        receiver.ask("count 0 0")
        receiver.ask("notified_wait 0 0 0")  # it is there
        receiver.ask(f"same {target} 0 4096 9")
        sender.answer()
        sender.ask(f"wait {plan} 0")

    def test_an_end_while_the_other_computes(self):
        """It is told as soon as it calls the library."""
        for victim in (0, 1):
            with self.subTest(victim=victim):
                stream = Stream(*self.pair().group([0, 1]), shape="700000")
                self.assertEqual(stream.run(3), 3)
                actors = (stream.sender, stream.receiver)
                self.computes(actors[1 - victim])
                actors[victim].kill()
                actors[1 - victim].answer()
                with self.refused("-EOWNERDEAD"):
                    actors[1 - victim].ask(f"start {(stream.ack, stream.plan)[victim]}")
                with self.refused("-EOWNERDEAD"):
                    actors[1 - victim].ask(f"notified_wait {victim} 0 -1")

    def test_a_connection_breaks_while_both_compute(self):
        stream = Stream(*self.pair().group([0, 1]), shape="700000")
        for _ in range(2):
            self.assertEqual(stream.run(3), 3)
            for actor in (stream.sender, stream.receiver):
                self.computes(actor)
            end_all(stream.sender, reset)
            for actor in (stream.sender, stream.receiver):
                actor.answer()

    def test_stopped(self):
        """A process that is stopped holds up only those who put to it."""
        cluster = self.pair()
        bystander = Stream(*cluster.group([0, 1], name="bystander"))
        stream = Stream(*cluster.group([0, 1]), shape="700000")
        bystander.begin(bystander=True)
        for _ in range(harness.rounds(3)):
            self.assertEqual(stream.run(3), 3)
            stream.begin(3)
            for actor in (stream.receiver, stream.sender):
                actor.process.send_signal(signal.SIGSTOP)
                time.sleep(0.2)
                actor.process.send_signal(signal.SIGCONT)
            self.assertEqual(stream.finish(), 3)
        self.assertGreater(bystander.finish(), 0)

    def test_what_tcad_has_to_do(self):
        """Without a request, chains that cannot do without tcad take its seat."""
        cluster = self.pair()
        near, far, other = cluster.group([0, 1, 1])
        source = near.alloc(4096)
        target = far.alloc(4096)
        apart = other.alloc(4096)
        put = f"put {source} 0 8 {far.handle(target)} 0 8"
        for steps in ((put, "notify 2 0"), (put, f"put {source} 0 8 {other.handle(apart)} 0 8", "notify 1 0"),
                      (put, f"put {source} 8 8 {near.handle(source)} 0 8", "notify 1 0")):
            with self.subTest(steps=steps):
                plan = near.plan(*steps)
                (other if steps[-1] == "notify 2 0" else far).tell("notified_wait 0 0 -1")
                near.run(plan, -1)
                (other if steps[-1] == "notify 2 0" else far).answer()
                self.assertEqual(near.receipt(plan)["seat"], "daemon")

    def test_no_more_connections(self):
        """Beyond the limit, at either end, plans are in the daemon's seat."""
        cluster = self.pair(**{"limits.pairs_per_session": "1"})
        one, two, three = cluster.group([0, 1, 1])
        for sender, receiver, rank, seat in ((one, two, 1, "client"), (one, three, 2, "daemon"), (two, one, 0, "client"),
                                             (three, one, 0, "daemon")):
            plan, _, _ = sender.put_plan(receiver, 4096, f"notify {rank} 3")
            receiver.tell(f"notified_wait {[one, two, three].index(sender)} 3 -1")
            sender.run(plan, -1)
            receiver.answer()
            self.assertEqual(sender.receipt(plan)["seat"], seat)

    def test_without_the_driver(self):
        """In an installation of libtca without libtca-tcp, tcad puts."""
        place = tempfile.mkdtemp(prefix="tca-test-")
        self.addCleanup(shutil.rmtree, place)
        shutil.copy(os.path.join(os.environ["TCA_TEST_BUILD"], "client", "libtca.so.0"), place)
        cluster = self.pair()
        stream = Stream(*cluster.group([0, 1], name="neither", LD_LIBRARY_PATH=place))
        self.assertEqual(stream.run(5), 5)
        self.assertEqual(self.seat_of(stream), ("tcp", "daemon"))

    def test_one_rail_of_several(self):
        """Where other rails lead, too, the cost model decides, and the plan can move to another one."""
        for options in ({"rails.enable": "shm tcp ofi", "rails.ofi_unprotected": "yes"},
                        {"rails.enable": "shm tcp", "rail tcp:b.driver": "tcp", "rail tcp:b.plane": "b"}):
            cluster = self.cluster(2, options=options)
            stream = Stream(*cluster.group([0, 1]))
            self.assertEqual(stream.run(3), 3)
            self.assertEqual(self.seat_of(stream)[1], "daemon")


if __name__ == "__main__":
    harness.main()
