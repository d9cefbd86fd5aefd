#!/usr/bin/env python3
"""Invalid plans, layouts and handles: each is refused with a message that names the error, and has no effect."""

import os
import random
import struct
import subprocess
import sys

import wire
from hostile import HostileCase, until
from harness import DEADLINE_S, main, program

MIB = 1 << 20


class Plans(HostileCase):
    def setUp(self):
        super().setUp()
        self.nodes = self.cluster(2)
        self.client = self.open(self.nodes[0])
        self.region, _, self.handle = self.client.alloc(MIB)
        self.secret = self.client.secret

    def put(self, handle=None, source_layout=None, target_layout=None, **arguments):
        return wire.put(self.region, handle or self.handle, source_layout or wire.contiguous(8),
                        target_layout or wire.contiguous(8), **arguments)

    def commit_and_release(self, *chains, **arguments):
        _, body, _ = self.client.ask(wire.commit(*chains, **arguments))
        self.client.ask(wire.blob(wire.PLAN_RELEASE, wire.number(1, body.get(1, [0])[0])))

    def refused(self, name, *texts, steps=None, chains=None, **arguments):
        with self.fails(name, *texts):
            self.client.ask(wire.commit(*(chains if chains is not None else [steps]), **arguments))

    def test_layouts(self):
        good = wire.contiguous(8)
        size = {"size": 8, "blocks": 1, "upper": 8}
        block = [wire.op(wire.BLOCK, count=8)]
        top = (1 << 63) - 1
        bad = {
            "not a layout": [b"", b"x", good[:-1], good[:63], good + b"x", wire.program(block, magic=1, **size)],
            "version": [wire.program(block, version=wire.VERSION + 1, **size)],
            "length": [wire.program(block, op_count=2, **size), wire.program(block, pair_count=1, **size),
                       wire.program(block, op_count=0, **size)],
            "more than": [wire.program(block, op_count=0xFFFFFFFF, **size), wire.program(block, pair_count=1 << 21, **size)],
            "match the operations": [wire.program(block, size=9, blocks=1, upper=8), wire.program(block, depth=1, **size),
                                     wire.program(block, size=8, blocks=2, upper=8),
                                     wire.program(block, size=8, blocks=1, upper=4),
                                     wire.program(block, size=8, blocks=1, lower=-1, upper=8)],
            "unknown kind": [wire.program([wire.op(9, count=8)], **size), wire.program([wire.op(0, count=8)], **size)],
            "count of zero": [wire.program([wire.op(wire.BLOCK)]), wire.program([wire.op(wire.LOOP, body=1), block[0]])],
            "body": [wire.program([wire.op(wire.LOOP, count=2)]), wire.program([wire.op(wire.LOOP, body=5, count=2), block[0]]),
                     wire.program([wire.op(wire.BLOCK, body=1, count=8)], **size)],
            "overflow": [wire.program([wire.op(wire.BLOCK, count=1 << 63)]),
                         wire.program([wire.op(wire.BLOCK, count=2, offset=top)]),
                         wire.program([wire.op(wire.LOOP, body=1, count=1 << 62, stride=1 << 62), block[0]]),
                         wire.program([wire.op(wire.LOOP, body=1, count=1 << 63, stride=0), block[0]])],
            "nested more than 16 deep": [wire.program([wire.op(wire.LOOP, body=17 - i, count=2, stride=8) for i in range(17)] + block)],
            "next pairs": [wire.program([wire.op(wire.LIST, body=5, count=1)], pairs=[(0, 8)]),
                           wire.program([wire.op(wire.LIST, count=2)], pairs=[(0, 8)])],
            "no list uses": [wire.program(block, pairs=[(0, 8)], **size)],
        }
        with self.undisturbed(self.nodes):
            for text, layouts in bad.items():
                for layout in layouts:
                    for side in ("source", "target") if layout else ("source",):  # no target layout: the source's
                        with self.subTest(text=text, side=side, layout=layout.hex()), self.assertRaises(wire.Failure) as caught:
                            # directly, because put() takes empty for absent
                            source, target = (layout, good) if side == "source" else (good, layout)
                            self.client.ask(wire.commit([wire.put(self.region, self.handle, source, target)]))
                        self.assertIn(caught.exception.name, ("-EINVAL", "-E2BIG", "-EPROTO"))
                        self.assertIn(f"step 0: {side} layout: ", caught.exception.text)
                        if layout:
                            self.assertRegex(caught.exception.text, f"{text}|not aligned|not a layout|length does not")
            self.refused("-EINVAL", "target layout 8 B", "does not fit", steps=[wire.put(self.region, self.handle, good, b"", target_offset=MIB)])

        self.client.ask(wire.commit([wire.put(self.region, self.handle, good, b"")]))

    def test_places(self):
        far = wire.program([wire.op(wire.BLOCK, count=8, offset=-16)], size=8, blocks=1, lower=-16, upper=-8)
        wide = wire.program([wire.op(wire.LOOP, body=1, count=2, stride=MIB), wire.op(wire.BLOCK, count=8)], depth=1, size=16,
                            blocks=2, upper=MIB + 8)
        with self.undisturbed(self.nodes):
            for offset in (MIB - 7, MIB, MIB + 1, 1 << 63, (1 << 64) - 1, (1 << 64) - 8):
                self.refused("-EINVAL", "step 0", "source layout 8 B", f"offset {offset}", f"region {self.region}", str(MIB),
                             steps=[self.put(source_offset=offset)])
                self.refused("-EINVAL", "step 0", "target layout 8 B", f"offset {offset}", f"{MIB} bytes of the handle",
                             steps=[self.put(target_offset=offset)])
            for offset in (0, 8, 15, MIB + 9):
                self.refused("-EINVAL", "does not fit", steps=[self.put(source_layout=far, source_offset=offset)])
                self.refused("-EINVAL", "does not fit", steps=[self.put(target_layout=far, target_offset=offset)])
            self.refused("-EINVAL", "does not fit", steps=[self.put(source_layout=wide, target_layout=wire.contiguous(16))])
            self.refused("-EINVAL", "has 8 bytes", "16", "equal",
                         steps=[self.put(target_layout=wire.contiguous(16))])
            for region in (0, self.region + 1, 1 << 63):
                self.refused("-EINVAL", "step 0", f"region {region} does not belong to this session",
                             steps=[wire.put(region, self.handle, wire.contiguous(8), wire.contiguous(8))])

    def test_endless(self):
        """A loop with zero stride and the largest possible count."""
        loop = wire.program([wire.op(wire.LOOP, body=1, count=1 << 60), wire.op(wire.BLOCK, count=1)], depth=1, size=1 << 60,
                            blocks=1 << 60, upper=1)
        with self.undisturbed(self.nodes):
            for seat in (0, 1, 2):
                self.refused("-EINVAL", str(1 << 60), str(MIB), "more than once",
                             steps=[self.put(source_layout=loop, target_layout=loop)], seat=seat)

    def test_reductions(self):
        with self.undisturbed(self.nodes):
            gaps = wire.program([wire.op(wire.LOOP, body=1, count=2, stride=16), wire.op(wire.BLOCK, count=8)], depth=1, size=16, blocks=2,
                                upper=24, ub=24)
            for combine, element in ((13, 15), (11, 17), (12, 2), (1, 19), (1, 0), (0xFFFFFFFF, 0xFFFFFFFF), (8, 15), (3, 18)):
                self.refused("-EINVAL", "step 0", "does not combine", steps=[self.put(combine=combine, element=element)])
            for source, target in ((gaps, wire.contiguous(16)), (wire.contiguous(16), gaps), (wire.contiguous(12),) * 2):
                self.refused("-EINVAL", "step 0", "whole elements",
                             steps=[self.put(source_layout=source, target_layout=target, combine=1, element=15)])
            self.refused("-EINVAL", "step 0", "whole elements", steps=[self.put(source_layout=wire.contiguous(24), target_layout=wire.contiguous(24),
                                                                                combine=11, element=15)])

    def test_parts(self):
        gaps = wire.program([wire.op(wire.LOOP, body=1, count=2, stride=16), wire.op(wire.BLOCK, count=8)], depth=1, size=16, blocks=2,
                            upper=24, ub=24)
        more = wire.program([wire.op(wire.LOOP, body=1, count=3, stride=16), wire.op(wire.BLOCK, count=8)], depth=1, size=24, blocks=3,
                            upper=40, ub=40)
        endless = wire.program([wire.op(wire.LOOP, body=1, count=1 << 60), wire.op(wire.BLOCK, count=1)], depth=1, size=1 << 60,
                               blocks=1 << 60, upper=1)
        with self.undisturbed(self.nodes):
            for seat in (1, 2):
                self.refused("-EINVAL", "step 0", "neither is contiguous", seat=seat,
                             steps=[self.put(source_layout=gaps, target_layout=more, parts=1)])
                self.refused("-EINVAL", "step 0", "as a whole", seat=seat, steps=[self.put(combine=1, element=15, parts=1)])
                self.refused("-EINVAL", "more than once", seat=seat, steps=[self.put(target_layout=endless, parts=1)])
                for at in (1023, 1024, 1 << 31, (1 << 32) - 1):
                    self.refused("-EINVAL", "puts with parts", f"index {at}", "has 1024", seat=seat, parts_at=at,
                                 steps=[self.put(parts=1), self.put(parts=1)])
                self.refused("-EINVAL", "1025 puts with parts", seat=seat, steps=[self.put(parts=1)] * 1025)
                self.commit_and_release([self.put(source_layout=endless, parts=1), self.put(parts=1)], parts_at=1022, seat=seat)

    def test_repeating(self):
        with self.undisturbed(self.nodes):
            waits = [wire.wait(0, 0), self.put()]
            self.refused("-EINVAL", "a seat", chains=[waits], repeat=1)
            for seat in (1, 2):
                self.refused("-EINVAL", "a chain", chains=[], repeat=1, seat=seat)
                self.refused("-EINVAL", "chain 1", "begin with a wait", chains=[waits, [self.put()]], repeat=1, seat=seat)

    def test_numbers(self):
        with self.undisturbed(self.nodes):
            step = self.put()
            for channel in (4, 0xFFFFFFFF):
                self.refused("-EINVAL", f"channel {channel}", "0 to 3", steps=[step], channel=channel)
            for seat in (3, 200, 0xFFFFFFFF):
                self.refused("-EINVAL", f"seat {seat}", steps=[step], seat=seat)
            for rail in ("ib", "any", "SHM", "shm ", "%n%s", "ofi:", "r" * 100000):
                self.refused("-EINVAL", f"rail {rail[:64]}: this node has only shm", steps=[step], rail=rail)
            for rank in (1, 4096, 0xFFFFFFFF):
                self.refused("-EINVAL", "step 0", f"rank {rank}", "0 to 0", steps=[wire.notify(rank, 0)])
                self.refused("-EINVAL", "step 0", f"rank {rank}", "0 to 0", steps=[wire.wait(rank, 0)])
            self.refused("-EINVAL", "chain 0 has no steps", chains=[[]])
            self.refused("-EINVAL", "chain 1 has no steps", chains=[[wire.notify(0, 0)], []])
            self.refused("-EINVAL", "65 chains", "at most 64", chains=[[wire.notify(0, 0)]] * 65)
            self.refused("-E2BIG", "65537 steps", "65536", chains=[[wire.notify(0, 0)] * 65537])
            self.refused("-EPROTO", "step 1", "neither put, notify, signal nor wait", steps=[wire.notify(0, 0), wire.FLUSH])
            for plan in (0, 7, 4095, 4096, 0xFFFFFFFF):
                with self.fails("-EINVAL", f"plan {plan} does not belong to session"):
                    self.client.ask(wire.blob(wire.PLAN_RELEASE, wire.number(1, plan)))
            for region in (0, 99, 1 << 63):
                with self.fails("-EINVAL", f"region {region} does not belong to session"):
                    self.client.ask(wire.blob(wire.REGION_FREE, wire.number(1, region)))
            for size, flags in ((0, 0), (1 << 63, 0), ((1 << 64) - 1, 0), (4096, 3), (4096, 4)):
                with self.fails("-EINVAL", f"region of {size} bytes", "memory.reserved"):
                    self.client.ask(wire.region_alloc(size, flags))
            with self.fails("-EDQUOT", "memory.region_bytes_per_user"):
                self.client.ask(wire.region_alloc(1 << 44))
            # and invalid time-outs
            for timeout in (1, (1 << 64) - 1):
                self.commit_and_release([step], timeout_ns=timeout)
            self.commit_and_release()  # no chains at all

    def test_collectives(self):
        """What a client says about its collective operation is displayed, and nothing else."""
        texts = ("", "broadcast, " * 50, "two\nlines\x1b[31m", "100 %s %n")
        with self.undisturbed(self.nodes):
            for text in texts:
                with self.subTest(text=text):
                    said = wire.collective(text, text, *[(text, (1 << 64) - 1)] * 8)
                    _, body, _ = self.client.ask(wire.commit([wire.notify(0, 0)], said=said))
                    plan = next(plan["id"] for plan in self.nodes[0].plans() if plan["pid"] == os.getpid())
                    shown = self.nodes[0].tcactl("plan", plan)["collective"]
                    clean = "".join(letter if letter >= " " else "?" for letter in text)[:63]
                    self.assertEqual((shown["operation"], shown["algorithm"], len(shown["candidates"])), (clean, clean, 8))
                    self.assertIn(clean, self.nodes[0].tcactl_raw("plan", plan).stdout)
                    self.client.ask(wire.blob(wire.PLAN_RELEASE, wire.number(1, body.get(1, [0])[0])))
            self.refused("-EINVAL", "9 algorithms", "at most 8", steps=[wire.notify(0, 0)], said=wire.collective("", "", *[("", 1)] * 9))

    def test_quotas(self):
        many = [wire.notify(0, 0)] * 65536
        with self.undisturbed(self.nodes):
            other = self.open(self.nodes[0])
            with self.fails("-EDQUOT", "limits."):
                for _ in range(100):
                    other.ask(wire.commit(many))
            other.close()

    def test_forged_handles(self):
        """Changes each field and corrects the checksum."""
        # a region's number may become that of another region, which has another key
        expected = {
            "magic": ("-EINVAL", "not a handle"), "version": ("-EINVAL", "not a handle"), "flags": ("-EINVAL", "not a handle"),
            "node": ("-EINVAL", "cluster file does not name"), "incarnation": ("-ESTALE", "from before a restart"),
            "region": ("-EACCES", "region"), "key0": ("-EACCES", "key does not match bytes"),
            "key1": ("-EACCES", "key does not match bytes"),
        }
        step = [self.put()]
        with self.undisturbed(self.nodes):
            for name, (error, text) in expected.items():
                width = 8 * struct.calcsize(wire.HANDLE_FIELDS[name][1])
                for bit in range(width):
                    value = wire.handle_field(self.handle, name) ^ 1 << bit
                    if name == "region" and value <= wire.handle_field(self.handle, "region") or name == "node" and value == 1:
                        continue
                    with self.subTest(field=name, bit=bit):
                        self.refused(error, text, steps=[self.put(wire.with_field(self.handle, name, value))])
            far = wire.with_field(self.handle, "region", 1 << 40)
            self.refused("-EACCES", f"region {1 << 40} of node 0 never existed", steps=[self.put(far)])
            for offset, length in ((1, MIB), (MIB + 1, 8), (MIB, 8), (0, MIB + 1), (8, (1 << 63)), (1 << 63, 8), (0, 8), (8, MIB - 8)):
                forged = wire.with_field(wire.with_field(self.handle, "offset", offset), "length", length)
                self.refused("-EACCES", "key does not match bytes", str(offset), str(length), "forged", steps=[self.put(forged)])
                signed = wire.sign(forged, self.secret)  # its owner may write anything
                if offset + length > MIB:
                    self.refused("-EACCES", "names bytes", str(offset), str(length), str(MIB), steps=[self.put(signed)])
                else:
                    self.commit_and_release([self.put(signed)])
            part = wire.sign(wire.with_field(wire.with_field(self.handle, "offset", 4096), "length", 8), self.secret)
            self.commit_and_release([self.put(part)])
            for name, value in ("offset", 0), ("offset", 4095), ("length", 9), ("length", MIB - 4096):  # wider than it was given
                self.refused("-EACCES", "key does not match bytes", steps=[self.put(wire.with_field(part, name, value))])
            both = wire.with_field(wire.with_field(part, "offset", 0), "length", MIB)
            self.refused("-EACCES", "key does not match bytes", steps=[self.put(both)])
            wrapped = wire.with_field(wire.with_field(self.handle, "offset", (1 << 64) - 8), "length", 16)
            self.refused("-EINVAL", "not a handle", steps=[self.put(wrapped)])
            for garbled in (self.handle[:12] + bytes([self.handle[12] ^ 1]) + self.handle[13:], b"\xff" * 64):
                self.refused("-EINVAL", "not a handle", "corrupt", steps=[self.put(garbled)])
            for other in (self.handle[:63], self.handle + b"x", b"short"):
                self.refused("-EINVAL", "not a handle", f"{len(other)} bytes", steps=[self.put(other)])
            self.refused("-EINVAL", "not set", steps=[self.put(bytes(64))])
            self.commit_and_release(step)  # the true one is taken

    def test_forged_reaches(self):
        """The daemon passes no descriptor for a handle that it would not put to."""
        other = self.open(self.nodes[1])
        _, _, far = other.alloc(MIB)
        with self.undisturbed(self.nodes):
            for name, bit, error, text in (("incarnation", 1, "-ESTALE", "from before a restart"), ("region", 1 << 40, "-EACCES", "never existed"),
                                           ("key0", 1, "-EACCES", "key does not match"), ("key1", 1, "-EACCES", "key does not match"),
                                           ("length", 8, "-EACCES", "key does not match"), ("offset", 8, "-EACCES", "key does not match")):
                forged = wire.with_field(self.handle, name, wire.handle_field(self.handle, name) ^ bit)
                with self.subTest(field=name), self.fails(error, text):
                    self.client.ask(wire.region_reach(forged))
            for length in (0, 1, 63, 65, 4096):
                with self.subTest(length=length), self.fails("-EINVAL", "64 bytes"):
                    self.client.ask(wire.region_reach((self.handle * 64)[:length]))
            with self.fails("-EINVAL", "belongs to node 1"):
                self.client.ask(wire.region_reach(far))
            kind, body, fds = self.client.ask(wire.region_reach(self.handle))
            self.assertEqual((kind, body[3], len(fds)), (wire.REGION_REACHED, [MIB], 1))
            os.close(fds[0])

    def test_forged_handles_elsewhere(self):
        """The same request to the daemon that owns the memory."""
        other = self.open(self.nodes[1])
        _, _, handle = other.alloc(MIB)
        with self.undisturbed(self.nodes):
            for name, (error, text) in {"incarnation": ("-ESTALE", "from before a restart"), "region": ("-EACCES", "never existed"),
                                        "key0": ("-EACCES", "key"), "key1": ("-EACCES", "key"),
                                        "length": ("-EACCES", "key does not match bytes")}.items():
                forged = wire.with_field(handle, name, wire.handle_field(handle, name) ^ 1 << 40)
                self.refused(error, text, "node 1", steps=[self.put(forged)])
            self.commit_and_release([self.put(handle)])
            # abandoned bind requests: the other daemon keeps none of them
            self.nodes[1].pause()
            for _ in range(20):
                self.refused("-ETIMEDOUT", "node1", "in time", steps=[self.put(handle)], timeout_ns=1)
            self.nodes[1].resume()
            other.alloc(4096)  # asked after them
            until(lambda: all(region["bindings"] == 0 for region in self.nodes[1].regions()), "no bindings are left")
        other.close()

    def test_stale_handles(self):
        with self.undisturbed(self.nodes):
            other = self.open(self.nodes[0])
            region, _, handle = other.alloc(4096)
            self.client.ask(wire.commit([self.put(handle)]))
            other.ask(wire.blob(wire.REGION_FREE, wire.number(1, region)))
            self.refused("-ESTALE", f"region {region} of node 0 was freed", "new handle", steps=[self.put(handle)])
            _, _, handle = other.alloc(4096)
            other.close()
            until(lambda: self.nodes[0].counts()[0] == 5, "its session has ended")
            with self.assertRaises(wire.Failure) as caught:
                self.client.ask(wire.commit([self.put(handle)]))
            self.assertIn(caught.exception.name, ("-ESTALE", "-EOWNERDEAD"))
            self.client.ask(wire.blob(wire.PLAN_RELEASE, wire.number(1, 0)))

    def test_random_commits(self):
        """Valid commits with bytes changed."""
        chance = random.Random(2)
        good = wire.commit([self.put() + wire.FLUSH, wire.notify(0, 3), wire.wait(0, 3) + wire.FLUSH, self.put(ordered=1)], [wire.notify(0, 1)], name="x", timeout_ns=10 ** 9)
        with self.undisturbed(self.nodes):
            client = self.open(self.nodes[0])
            for _ in range(2000):
                payload = bytearray(good)
                for _ in range(chance.choice((1, 1, 2, 8))):
                    payload[chance.randrange(len(payload))] = chance.randrange(256)
                try:
                    _, body, _ = client.ask(bytes(payload))
                    client.ask(wire.blob(wire.PLAN_RELEASE, wire.number(1, body.get(1, [0])[0])))
                except wire.Failure:
                    pass
                except wire.Gone:
                    client.close()
                    client = self.open(self.nodes[0])
            client.close()


class Others(HostileCase):
    """Another user's memory, processes and daemon are out of reach."""

    STRANGER = 65534

    def as_stranger(self, node, code):
        """Runs Python as another user, with `client` open; returns its output."""
        here = os.path.dirname(os.path.abspath(__file__))
        # the modules may be in a directory that the other user cannot read: import them before changing the user
        text = f"import os, sys\nsys.path.insert(0, {here!r})\nimport wire\nos.setgroups([])\nos.setgid({self.STRANGER})\n" \
               f"os.setuid({self.STRANGER})\nclient = wire.Client({node.socket!r}).open()\n{code}"
        done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=DEADLINE_S, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_another_user(self):
        if os.geteuid() != 0:
            self.skipTest("only root can be two users")
        cluster = self.cluster(2)
        for node in cluster.nodes:  # the way to the sockets
            os.chmod(node.directory, 0o711)
        os.chmod(cluster.directory, 0o711)
        owners = [self.open(node) for node in cluster.nodes]
        handles = [owner.alloc(MIB)[2] for owner in owners]
        with self.undisturbed(cluster):
            out = self.as_stranger(cluster[0], f"""
region, _, own = client.alloc(4096)
def refused(payload):
    try:
        client.ask(payload)
        print("taken")
    except wire.Failure as failure:
        print(failure.name, failure.text)
for handle in {handles!r}:
    for seat in (0, 1, 2):
        refused(wire.commit([wire.put(region, handle, wire.contiguous(8), wire.contiguous(8))], seat=seat))
refused(wire.blob(wire.REGION_FREE, wire.number(1, 1)))
refused(wire.commit([wire.put(1, own, wire.contiguous(8), wire.contiguous(8))]))
refused(wire.blob(wire.GROUP_JOIN, wire.blob(1, "bystanders0") + wire.number(2, 0) + wire.number(3, 2) + wire.number(4, 10**8)))
admin = wire.Client({cluster[0].socket!r})
admin.ask(wire.hello(admin=True))
client = admin
for verb in ("reload", "calibrate", "drain"):
    refused(wire.admin(verb, "on"))
""").splitlines()
            for number, line in enumerate(out[:6]):
                with self.subTest(number=number):
                    if number == 4 and line.startswith("-ENETDOWN"):  # the client's seat, to the other node
                        self.assertIn("none of which leads there", line)
                    else:
                        self.assertRegex(line, r"^-EACCES step 0: region [0-9]+ of node [01] belongs to another user \(0, not 65534\)")
            for line in out[6:8]:
                self.assertRegex(line, "^-EINVAL .*(none of|does not belong to)")
            self.assertNotIn("taken", out[8])
            for line in out[9:12]:
                self.assertRegex(line, "^-EACCES (reload|calibrate|drain): permitted only for root and the daemon's own user")
        for owner in owners:
            owner.close()


if __name__ == "__main__":
    main()
