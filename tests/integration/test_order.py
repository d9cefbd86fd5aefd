#!/usr/bin/env python3
"""The steps of a chain read and overwrite what earlier ones have put, over any rails: the result is as if they ran one after the
other."""

import os
import random
import secrets
import struct

import actors
import boards
import harness

SEED = int(os.environ.get("TCA_TEST_SEED", secrets.randbits(32)))
SMALL, LARGE = 2048, 300_000


class Buffer:
    """Memory of an actor, and the model's expectation of its contents."""

    def __init__(self, rank, actor, size, attached=False):
        self.rank, self.actor, self.size, self.attached = rank, actor, size, attached
        self.region = (actor.attach if attached else actor.alloc)(size)
        self.handle = actor.handle(self.region)
        self.bytes = bytearray(size)

    def fill(self, seed):
        self.actor.ask(f"fill {self.region} 0 {self.size} {seed}")
        self.bytes = self.read()

    def read(self):
        return bytearray.fromhex(self.actor.ask(f"read {self.region} 0 {self.size}")[0])


class Layout:
    """`count` blocks `stride` apart from an offset on."""

    def __init__(self, offset, count, block, stride):
        self.offset, self.count, self.block, self.stride = offset, count, block, stride

    def __str__(self):
        return f"{self.offset} " + (f"{self.count}x{self.block}x{self.stride}" if self.count > 1 else str(self.block))

    def places(self):
        return [self.offset + i * self.stride for i in range(self.count)]

    def end(self):
        return self.offset + (self.count - 1) * self.stride + self.block

    def get(self, memory):
        return b"".join(memory[place:place + self.block] for place in self.places())

    def put(self, memory, data):
        for i, place in enumerate(self.places()):
            memory[place:place + self.block] = data[i * self.block:(i + 1) * self.block]


def random_layout(dice, size, total):
    """This many blocks, without overlaps."""
    count = dice.choice([1, 1, *(n for n in (2, 3, 8, 50) if total % n == 0)])
    block = total // count
    room = (size - block) // (count - 1) if count > 1 else block
    stride = dice.randint(block, room) if count > 1 else block
    return Layout(dice.randint(0, size - (count - 1) * stride - block), count, block, stride)


class Step:
    def __init__(self, dice, own, all_buffers):
        self.source = dice.choice(own)
        self.target = dice.choice(own if dice.random() < 0.5 else all_buffers)
        most = min(self.source.size, self.target.size) // 2
        total = dice.choice([8, 16, 48, 1200, dice.randint(1, most), most])
        while True:
            self.read, self.write = random_layout(dice, self.source.size, total), random_layout(dice, self.target.size, total)
            if self.source is not self.target or self.read.end() <= self.write.offset or self.write.end() <= self.read.offset:
                return
            total = max(1, total // 2)

    def __str__(self):
        read, write = str(self.read).split(" "), str(self.write).split(" ")
        return f"put {self.source.region} {read[0]} {read[1]} {self.target.handle} {write[0]} {write[1]}"

    def run(self):
        self.write.put(self.target.bytes, self.read.get(self.source.bytes))

    def describe(self):
        return f"{self.source.rank}.{self.source.region} {self.read} -> {self.target.rank}.{self.target.region} {self.write}"


def signed(number):
    return number - (1 << 32) if number >> 31 else number


class Reduction:
    """A put that combines elements."""

    # operator and type, their numbers in tca.h, the format of an element, and the expected result
    KINDS = {"sum of uint8": (1, 8, "B", lambda a, b: a + b & 0xff),
             "sum of int64": (1, 6, "Q", lambda a, b: a + b & 2**64 - 1),
             "product of uint32": (2, 10, "I", lambda a, b: a * b & 2**32 - 1),
             "max of int16": (4, 4, "h", max),
             "logical xor of uint16": (7, 9, "H", lambda a, b: (a != 0) ^ (b != 0)),
             "bitwise and of byte": (8, 0, "B", lambda a, b: a & b),
             "min with index of uint8": (11, 8, "Q", lambda a, b: min(a, b, key=lambda pair: (pair & 0xff, signed(pair >> 32)))),
             "max with index of uint8": (12, 8, "Q", lambda a, b: max(a, b, key=lambda pair: (pair & 0xff, -signed(pair >> 32))))}

    def __init__(self, dice, own, targets):
        self.source, self.target = dice.choice(own), dice.choice(targets)
        self.kind = dice.choice(list(self.KINDS))
        self.operator, self.type, self.format, self.combine = self.KINDS[self.kind]
        width = struct.calcsize(self.format)
        most = min(self.source.size, self.target.size) // 2
        while True:
            self.size = dice.choice([16, 48, 1200, dice.randint(width, most), most]) // width * width
            self.read, self.write = dice.randint(0, self.source.size - self.size), dice.randint(0, self.target.size - self.size)
            if self.source is not self.target or self.read + self.size <= self.write or self.write + self.size <= self.read:
                return

    def __str__(self):
        return f"reduce {self.source.region} {self.read} {self.size} {self.target.handle} {self.write} {self.operator} {self.type}"

    def elements(self, memory, at):
        return [element for element, in struct.iter_unpack("<" + self.format, memory[at:at + self.size])]

    def run(self):
        a, b = self.elements(self.target.bytes, self.write), self.elements(self.source.bytes, self.read)
        combined = [self.combine(x, y) for x, y in zip(a, b)]
        self.target.bytes[self.write:self.write + self.size] = struct.pack(f"<{len(combined)}{self.format}", *combined)

    def describe(self):
        return f"{self.source.rank}.{self.source.region} {self.read} {self.size} -> {self.target.rank}.{self.target.region} {self.write}: {self.kind}"


class Rounds:
    """Random chains of the actor of rank 0, started several times each."""

    def __init__(self, case, actors, seed, size=SMALL, attached=False):
        self.case, self.actors, self.seed, self.dice = case, actors, seed, random.Random(seed)
        self.own = [Buffer(0, actors[0], size) for _ in range(3)]
        if attached:
            self.own.append(Buffer(0, actors[0], size, attached=True))
        self.buffers = self.own + [Buffer(rank, actor, size) for rank, actor in enumerate(actors) if rank]
        self.near = [buffer for buffer in self.buffers if buffer.actor.node is actors[0].node and not buffer.attached]
        self.attached = attached

    def remote(self, steps):
        """With some that complete remotely."""
        for step in steps:
            yield f"{step} ordered" if isinstance(step, Step) and self.dice.random() < 0.3 else str(step)
            if self.dice.random() < 0.2:
                yield "flush"

    def round(self, rails, seats):
        dice, first = self.dice, self.actors[0]
        rail, seat = dice.choice(rails), dice.choice(seats)
        landed = dice.random() < 0.3
        steps = [Reduction(dice, self.own, self.near) if dice.random() < 0.3 else Step(dice, self.own, self.buffers)
                 for _ in range(dice.randint(2, 8))]
        # A notified rank sees what was put before; the sender sees its own memory once the start is complete.
        told = [rank for rank in range(len(self.actors)) if rank or self.attached]
        plan = first.plan(*(self.remote(steps) if landed else map(str, steps)), *(f"notify {rank} 0" for rank in told), rail=rail, seat=seat, landed=landed)
        for buffer in self.buffers:
            buffer.fill(dice.getrandbits(16))
        for start in range(3):
            first.run(plan)
            for rank in told:
                self.actors[rank].ask(f"notified_wait {0} 0 -2")
            for step in steps:
                step.run()
            for buffer in self.buffers:
                now = buffer.read()
                if now != buffer.bytes:
                    wrong = [i for i, (a, b) in enumerate(zip(now, buffer.bytes)) if a != b]
                    self.case.fail(f"seed {self.seed}, rail {rail}, seat {seat}, landed {landed}: after start {start} bytes {wrong[0]} to "
                                   f"{wrong[-1]} ({len(wrong)}) of region {buffer.rank}.{buffer.region} are not what they should be, after\n"
                                   + "\n".join(step.describe() for step in steps))
        first.ask(f"freeplan {plan}")


class Order(boards.Boards):
    RAILS = "shm ofi"

    def rounds(self, cluster, places, rails=("any", "ofi"), seats=("any", "daemon"), small=12, large=3, attached=False):
        actors = cluster.group(places, name=f"job{len(cluster.actors)}")
        for size, count in ((SMALL, small), (LARGE, large)):
            rounds = Rounds(self, actors, f"{SEED}.{size}.{places}", size, attached)
            for _ in range(count):
                rounds.round(rails, seats)

    def test_on_one_node(self):
        cluster = self.cluster(1)
        self.rounds(cluster, [0, 0, 0], rails=["any"], seats=["any", "client", "daemon"])
        self.rounds(cluster, [0, 0], rails=["ofi"], seats=["daemon"])

    def test_on_several_nodes(self):
        cluster = self.cluster(3)
        self.rounds(cluster, [0, 1])
        self.rounds(cluster, [0, 0, 1, 2])

    def test_with_attached_memory(self):
        cluster = self.cluster(2)
        self.rounds(cluster, [0, 1], attached=True, small=8, large=3)
        self.rounds(cluster, [0, 0], rails=["any"], seats=["any", "client", "daemon"], attached=True, small=8, large=3)

    def test_over_boards(self):
        cluster = self.ring(3)
        self.rounds(cluster, [0, 0, 1, 2], rails=["peach2", "ofi", "any"], small=10, large=3)

    def test_reductions_are_the_same_in_both_seats(self):
        """All operators and types, any bits; each start combines with the result of the one before."""
        one, other = self.cluster(1).group([0, 0])
        size = 48000
        source = one.alloc(size)
        results = {}
        for seat in ("client", "daemon"):
            for owner in (one, other):
                one.ask(f"fill {source} 0 {size} 1")
                target = owner.alloc(size)
                owner.ask(f"fill {target} 0 {size} 2")
                handle, plans = owner.handle(target), 0
                for kind in range(13 * 19):
                    try:
                        plan = one.plan(f"reduce {source} 0 {size} {handle} 0 {kind // 19} {kind % 19}", "notify 1 0", seat=seat)
                    except actors.Failed as failed:
                        self.assertEqual((failed.name, kind // 19 and "does not combine" in failed.text), ("-EINVAL", True), failed)
                        continue
                    plans += 1
                    for _ in range(2):
                        one.run(plan)
                        other.ask("notified_wait 0 0 -2")
                    result = owner.ask(f"read {target} 0 {size}")
                    self.assertEqual(results.setdefault(kind, result), result, f"operator {kind // 19}, type {kind % 19}, {seat}")
                    one.ask(f"freeplan {plan}")
                self.assertEqual(plans, 19 + 2 * 16 + 4 * 14 + 3 * 11 + 3 * 11)

    def test_reductions_that_are_refused(self):
        one, other = self.cluster(2).group([0, 1])
        own = one.alloc(4096)
        there = other.alloc(4096)
        for step, *words in ((f"{own} 0 12 {one.handle(own)} 64 1 15", "12 bytes", "elements of 8 bytes"),
                             (f"{own} 0 24 {one.handle(own)} 64 11 15", "24 bytes", "min with index of double", "elements of 16 bytes"),
                             (f"{own} 0 16 {one.handle(own)} 64 13 15", "operator 13", "no such operator"),
                             (f"{own} 0 16 {one.handle(own)} 64 1 19", "type 19", "no such type"),
                             (f"{own} 0 16 {one.handle(own)} 64 8 15", "bitwise and", "double"),
                             (f"{own} 0 16 {other.handle(there)} 64 1 15", "node 1", "put the data there")):
            with self.assertRaises(actors.Failed) as caught:
                one.plan(f"reduce {step}")
            self.assertEqual(caught.exception.name, "-EINVAL")
            for word in words:
                self.assertIn(word, caught.exception.text)

    def test_a_reduction_is_explained(self):
        one, other = self.cluster(2).group([0, 1])
        own = one.alloc(1 << 16)
        there = other.alloc(1 << 16)
        one.plan(f"reduce {own} 0 4096 {one.handle(own)} 8192 1 15", f"put {own} 8192 4096 {other.handle(there)} 0 4096")
        chain = one.node.tcactl("plan", one.node.plans()[0]["id"])["chains"][0]
        self.assertNotEqual(chain["rail"], "shm")
        self.assertEqual([step["reduce"] for step in chain["steps"]], [{"operator": "sum", "type": "double"}, None])
        self.assertEqual([(step["fence"], step["after"]) for step in chain["steps"]], [(False, None), (True, 0)])

    def test_long_after_short(self):
        """Short puts are copied by the receiver, long ones written by the network, which may be faster: so the long one waits."""
        sender, receiver = self.cluster(2).group([0, 1])
        short = sender.alloc(16384)
        long = sender.alloc(131072)
        target = receiver.alloc(131072)
        handle = receiver.handle(target)
        sender.ask(f"fill {long} 0 131072 1")
        plan = sender.plan(f"put {short} 0 16384 {handle} 8192 16384", f"put {long} 0 131072 {handle} 0 131072", "notify 1 0", rail="ofi")
        steps = sender.node.tcactl("plan", sender.node.plans()[0]["id"])["chains"][0]["steps"]
        self.assertEqual([(step["fence"], step["after"]) for step in steps[:2]], [(False, None), (True, 0)])
        for seed in range(2, 22):
            sender.ask(f"fill {short} 0 16384 {seed}")
            sender.ask(f"start {plan}")
            receiver.ask("notified_wait 0 0 -2")
            receiver.ask(f"check {target} 0 131072 1")
            sender.ask(f"wait {plan} -2")

    def test_is_explained(self):
        one, other = self.cluster(2).group([0, 1])
        a = one.alloc(1 << 16)
        b = other.alloc(1 << 16)
        here, there = one.handle(a), other.handle(b)
        one.plan(f"put {a} 0 8x8x64 {here} 16384 64", f"put {a} 8 8x8x64 {there} 0 64", f"put {a} 16400 8 {there} 64 8")
        steps = one.node.tcactl("plan", one.node.plans()[0]["id"])["chains"][0]["steps"]
        self.assertEqual([(step["fence"], step["after"]) for step in steps], [(False, None), (False, None), (True, 0)])

    def relay(self, landed, first, second):
        """Two puts of one chain, and the data at the other node afterwards. `first`, `second`: of own memory a, b and the
        other's c."""
        one, other = self.cluster(2).group([0, 1])
        for size in ("16", "800000"):
            a = one.alloc(1 << 20)
            b = one.alloc(1 << 20)
            c = other.alloc(1 << 20)
            where = {"a": (a, one.handle(a)), "b": (b, one.handle(b)), "c": (c, other.handle(c))}
            steps = [f"put {where[source][0]} 0 {size} {where[target][1]} 0 {size}" for source, target in (first, second)]
            plan = one.plan(*steps, "notify 1 0", landed=landed)
            for seed in range(25):
                one.ask(f"fill {a} 0 {size} {2 * seed}")
                one.ask(f"fill {b} 0 {size} {2 * seed + 1}")
                one.ask(f"start {plan}")
                other.ask("notified_wait 0 0 -2")
                other.ask(f"check {c} 0 {size} {2 * seed + (first == 'bc')}")
                one.ask(f"wait {plan} -2")
                one.ask(f"check {b} 0 {size} {2 * seed}")

    def test_what_was_put_here_goes_on_elsewhere(self):
        for landed in (False, True):  # TCA_PLAN_LANDED as in the chains of tca-api.h
            with self.subTest(landed=landed):
                self.relay(landed, "ab", "bc")

    def test_what_goes_elsewhere_is_overwritten_here(self):
        for landed in (False, True):
            with self.subTest(landed=landed):
                self.relay(landed, "bc", "ab")


if __name__ == "__main__":
    harness.main()
