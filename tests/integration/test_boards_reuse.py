#!/usr/bin/env python3
"""Addresses on a board's bus are used again for other processes' memory while a daemon on another node puts to their previous
owners, and while that daemon is stopped: nothing of it arrives there."""

import os
import time

import harness
from boards import Boards
from harness import Failed, until

WINDOW = 32 << 20  # of bus addresses
SIZE = 1 << 20
CANARY, DATA = 0x5a, 0xbb
KEPT = 4  # memory of others that is watched at a time
SENDERS = 6
USER = 64003  # nobody else's


class Reused(Boards):
    def setUp(self):
        super().setUp()
        self.nodes = self.ring(3, rails__peach2_window=str(WINDOW), rails__enable="shm peach2")
        self.nodes.admit_users()
        self.puts_to_nobody, self.other = self.nodes.group([2, 1], name="others", uid=USER if os.geteuid() == 0 else None)
        self.others = []
        self.mapped = 0

    @staticmethod
    def committed(sender, receiver, region, *steps):
        """A plan into this region, which gets addresses by that, as soon as there are some."""
        source = sender.alloc(SIZE)
        sender.ask(f"set {source} 0 {SIZE} {DATA}")
        put = f"put {source} 0 {SIZE} {receiver.handle(region)} 0 {SIZE}"
        end = time.monotonic() + harness.DEADLINE_S
        while True:
            try:
                return sender.plan(put, *steps, rail="peach2", seat="daemon"), source
            except Failed as failed:
                if failed.name not in ("-EADDRNOTAVAIL", "-ENETDOWN") or time.monotonic() > end:
                    raise
                time.sleep(0.02)

    def check(self):
        for region, _, _ in self.others:
            self.other.ask(f"same {region} 0 {SIZE} {CANARY}")

    def take_address(self):
        """Memory of another process, into which nobody puts."""
        region = self.other.alloc(SIZE)
        self.other.ask(f"set {region} 0 {SIZE} {CANARY}")
        self.others.append((region, *self.committed(self.puts_to_nobody, self.other, region)))
        self.mapped += SIZE
        self.check()
        if len(self.others) > KEPT:
            region, plan, source = self.others.pop(0)
            self.puts_to_nobody.ask(f"freeplan {plan}")
            self.puts_to_nobody.ask(f"free {source}")
            self.other.ask(f"free {region}")

    def put(self, senders, receiver):
        """All of them, again and again, so that some puts are in flight and others wait for the board."""
        target = receiver.alloc(SIZE)
        plans = [self.committed(sender, receiver, target) for sender in senders]
        for sender, (plan, _) in zip(senders, plans):
            sender.tell(f"repeat {plan} 0")
        self.mapped += SIZE
        until(lambda: receiver.ask(f"read {target} {SIZE - 1} 1")[0] == f"{DATA:02x}", "a put arrives")
        return target, plans

    def end_puts(self, senders, plans, *errors):
        for sender in senders:
            with self.assertRaises(Failed) as failed:
                sender.answer()
            self.assertIn(failed.exception.name, ("-ESTALE", *errors), failed.exception.text)
        for sender, (plan, source) in zip(senders, plans):
            sender.ask(f"freeplan {plan}")
            sender.ask(f"free {source}")

    def churn(self, senders, receiver, windows):
        """Until so much memory has been mapped."""
        end = self.mapped + windows * WINDOW
        while self.mapped < end:
            target, plans = self.put(senders, receiver)
            receiver.ask(f"free {target}")
            self.take_address()
            self.end_puts(senders, plans)

    def test_under_puts(self):
        *senders, receiver = self.nodes.group([0, 0, 1])
        self.churn(senders, receiver, windows=harness.rounds(2))
        self.check()

    def test_the_sending_daemon_is_stopped(self):
        *senders, receiver = self.nodes.group([0] * SENDERS + [1], TCA_TIMEOUT="1000s")  # longer than their daemon is stopped
        for _ in range(harness.rounds(3)):
            target, plans = self.put(senders, receiver)
            self.nodes[0].pause()
            receiver.ask(f"free {target}")
            end = self.mapped + 2 * WINDOW
            while self.mapped < end:  # once all addresses are used up, only after that node is cut off
                self.take_address()
            self.nodes[0].resume()
            self.end_puts(senders, plans, "-ENETDOWN")  # which it may notice first: it was cut off
            self.check()
        self.churn(senders, receiver, windows=1)


if __name__ == "__main__":
    harness.main()
