#!/usr/bin/env python3
"""Memory that is freed while another node puts into it over ofi, tcp or boards (over hca: tests/vm/guest/hca-users), because its owner is
killed or frees it. No late data reaches other users' memory at the same addresses, and no bystander notices.

TCA_TEST_FREED=1000 repeats each case that often, before a release; a few are enough for the suite.
"""

import os
import random
import time

import harness
from boards import Boards
from harness import Stream, until

TIMES = int(os.environ.get("TCA_TEST_FREED", "0"))
CANARY = 0x5a


def shape(size, number):
    """Every third one in blocks, which go through the receiver's ring."""
    return f"256x{size // 512}x{size // 256}" if number % 3 == 2 else str(size)


# Sizes and times for an emulated machine, where a MiB takes about 0.1 s on its way: of short puts, long ones and those in blocks, some
# are freed half-way, and some not.
IN_A_GUEST = [4096, 1 << 20, 65536, 2 << 20], 6

USERS = (64001, 64002)  # nobody else's


def skip_without_root(case):
    if os.geteuid() != 0:
        case.skipTest("only root can start programs of two users")


class Freed(harness.Case):
    RAILS = "shm ofi"

    rail, seat, options = "ofi", "daemon", None
    killed = ("-EOWNERDEAD",)
    owner, stranger = None, None  # users; None: the test's own user
    sizes = [4096 << power for power in range(13)]  # up to 16 MiB
    times = 13

    def make_cluster(self):
        return self.cluster(2, options={"memory.reserved": "128M", **(self.options or {})})  # so addresses are soon used again

    def setUp(self):
        super().setUp()
        self.random = random.Random(1)
        self.nodes = self.make_cluster()
        self.nodes.admit_users()
        self.bystander = Stream(*self.nodes.group([0, 1], name="bystander"), rail=self.rail, shape="64x1024x4096")
        self.bystander.begin(bystander=True)
        self.before = [node.counts() for node in self.nodes.nodes]
        self.other = None  # another user's session on the receivers' node

    def tearDown(self):
        self.assertGreater(self.bystander.finish(), 0)
        super().tearDown()

    def job(self, number):
        size = self.sizes[number % len(self.sizes)]
        sender, receiver = self.nodes.group([0, 1], name=f"job{number}", uid=self.owner)
        source = sender.alloc(size)
        target = receiver.alloc(size)
        sender.ask(f"set {source} 0 {size} 0xbb")
        what = shape(size, number)
        plan = sender.plan(f"put {source} 0 {what} {receiver.handle(target)} 0 {what}", "notify 1 0", rail=self.rail, seat=self.seat)
        sender.tell(f"repeat {plan} 0")
        time.sleep(self.random.uniform(0, 0.03))
        return size, sender, receiver, target

    def others_memory(self, size):
        """Of the same size, so that it may get the same addresses, and allocated as soon as the other one has gone."""
        regions = [self.other.alloc(size) for _ in range(3)]
        for region in regions:
            self.other.ask(f"set {region} 0 {size} {CANARY}")
        return regions

    def check(self, regions, size):
        for region in regions:
            self.other.ask(f"same {region} 0 {size} {CANARY}")

    def rounds(self, end_target, *errors):
        for number in range(TIMES or self.times):
            with self.subTest(number=number):
                self.other = self.nodes.actor(1, uid=self.stranger)
                self.other.ask("open - 0 1 -2")
                size, sender, receiver, target = self.job(number)
                half_way = number // 3 % 2 == 0  # the rest of a write arrives when the memory is another user's
                if half_way:
                    self.nodes[0].pause()
                end_target(receiver, target)
                regions = self.others_memory(size)
                if half_way:
                    self.nodes[0].resume()
                with self.assertRaises(harness.Failed) as failed:
                    sender.answer()
                self.assertIn(failed.exception.name, errors)
                self.check(regions, size)
                for actor in (sender, receiver):
                    actor.end()
                self.check(regions, size)
                self.other.end()
                if number % 50 == 0:
                    self.check_nothing_is_left()
        self.check_nothing_is_left()

    def check_nothing_is_left(self):
        until(lambda: [node.counts() for node in self.nodes.nodes] == self.before, "what they held is freed")

    def test_receivers_are_killed(self):
        self.rounds(lambda receiver, _: receiver.kill(), *self.killed)

    def test_targets_are_freed(self):
        self.rounds(lambda receiver, target: receiver.ask(f"free {target}"), "-ESTALE")


class FreedByAnotherUser(Freed):
    owner, stranger = USERS

    def setUp(self):
        skip_without_root(self)
        super().setUp()


class FreedOverTcp(Freed):
    rail, options = "tcp", {"rails.enable": "shm tcp"}


class FreedOverBoards(Boards, Freed):
    rail = "peach2"

    def make_cluster(self):
        return self.ring(2, rails__enable="shm peach2")


class Quarantined(harness.Case):
    """Memory that peers may still write to counts against its user only, until they have confirmed that they have stopped."""

    RAILS = "shm ofi"
    BYTES = 4 << 20

    def setUp(self):
        super().setUp()
        skip_without_root(self)
        self.nodes = self.cluster(2, options={"memory.region_bytes_per_user": "8M"})
        self.nodes.admit_users()

    def held(self, uid):
        """Of its user, of the node, and the metric: quarantined bytes."""
        users = {user["uid"]: user["region_bytes_quarantined"] for user in self.nodes[1].tcactl("users")["users"]}
        metric, = (line for line in self.nodes[1].tcactl_raw("stats", "--openmetrics").stdout.splitlines()
                   if line.startswith("tcad_region_quarantined_bytes "))
        return users.get(uid, 0), self.nodes[1].tcactl("status")["regions"]["bytes_quarantined"], int(float(metric.split(" ")[1]))

    def quarantine(self):
        """Frees memory that the other node cannot confirm, because it is stopped. Returns its owner."""
        sender, receiver = self.nodes.group([0, 1], uid=USERS[0])
        plan, _, target = sender.put_plan(receiver, self.BYTES, "notify 1 0", rail="ofi", seat="daemon")
        sender.run(plan, -1)
        receiver.ask("notified_wait 0 0 -1")
        self.assertEqual(self.held(USERS[0]), (0, 0, 0))
        self.nodes[0].pause()
        receiver.ask(f"free {target}")
        until(lambda: self.held(USERS[0]) == (self.BYTES,) * 3, "what was freed is quarantined")
        return receiver

    def test_quota(self):
        receiver = self.quarantine()
        with self.refused("-EDQUOT", "region_bytes_per_user", "still in use"):
            receiver.alloc(2 * self.BYTES)
        stranger = self.nodes.actor(1, uid=USERS[1])
        stranger.ask("open - 0 1 -2")
        stranger.alloc(2 * self.BYTES)
        self.assertEqual(self.held(USERS[1]), (0, self.BYTES, self.BYTES))
        self.nodes[0].resume()
        until(lambda: self.held(USERS[0]) == (0, 0, 0), "the sender says that it has stopped")
        receiver.alloc(2 * self.BYTES)

    def test_tcad_ends_while_allocations_wait(self):
        """They wait for quarantined memory. A leak shows in the status of a tcad with AddressSanitizer."""
        others = [self.nodes.actor(1, uid=USERS[0]) for _ in range(3)]
        for actor in others:
            actor.ask("open - 0 1 -2")
        waiting = [self.quarantine(), *others]
        for actor in waiting:
            actor.tell(f"alloc {2 * self.BYTES}")
        time.sleep(0.5)  # less than they wait
        self.assertIsNone(self.nodes[1].end())
        for actor in waiting:
            with self.assertRaises(harness.Failed) as failed:
                actor.answer()
            self.assertIn(failed.exception.name, ("-EHOSTDOWN", "-EDQUOT"))  # a busy machine ends tcad after their wait


if __name__ == "__main__":
    harness.main()
