#!/usr/bin/env python3
"""tca_reach(): the memory of other processes of the node, in place."""

import os
import unittest

import harness


class Reach(harness.Case):
    def reach(self, actor, handle):
        return int(actor.ask(f"reach {handle}")[0], 16)

    def test_both_see_the_same_memory(self):
        owner, other = self.cluster(1).group([0, 0])
        region, base = owner.region("alloc", 1 << 16)
        address = self.reach(other, owner.handle(region))
        self.assertEqual(address, base)
        owner.ask(f"poke {base + 5000} 4 01020304")
        self.assertEqual(other.ask(f"peek {address + 5000} 4"), ["01020304"])
        other.ask(f"poke {address + 5002} 1 99")
        self.assertEqual(owner.ask(f"peek {base + 5000} 4"), ["01029904"])

    def test_part(self):
        owner, other = self.cluster(1).group([0, 0])
        region, base = owner.region("alloc", 1 << 16)
        self.assertEqual(self.reach(other, owner.handle(region, 100, 50)), base + 100)
        self.assertEqual(self.reach(other, owner.handle(region)), base)  # again, and all of it
        self.assertEqual(self.reach(other, owner.handle(region, 1 << 16, 0)), base + (1 << 16))

    def test_where_another_process_has_something_else(self):
        """Pointers into regions mean the same in all processes: no other address is taken without a word."""
        owner, other = self.cluster(1).group([0, 0])
        region, base = owner.region("alloc", 1 << 16)
        handle = owner.handle(region)
        other.ask(f"occupy {base} {1 << 30}")
        self.assertNotEqual(self.reach(other, handle), base)
        for _ in range(2):
            with self.refused("-EADDRINUSE", "memory.base"):
                other.region("alloc", 1 << 16)
        # Puts do not need the address.
        source = other.attach(64)
        other.ask(f"set {source} 0 64 0x5a")
        other.run(other.plan(f"put {source} 0 64 {handle} 0 64"))
        self.assertEqual(owner.ask(f"peek {base} 2"), ["5a5a"])

    def test_what_a_put_brings(self):
        """A plan and tca_reach() share one mapping; the reader need not be the target's owner."""
        writer, owner, reader = self.cluster(1).group([0, 0, 0])
        source = writer.alloc(4096)
        target = owner.alloc(4096)
        handle = owner.handle(target)
        address = self.reach(reader, handle)
        before = self.reach(writer, handle)
        plan = writer.plan(f"put {source} 0 100 {handle} 0 100", "notify 1 0")
        self.assertEqual(self.reach(writer, handle), before)
        writer.ask(f"set {source} 0 100 0x5a")
        writer.ask(f"start {plan}")
        owner.ask("notified_wait 0 0 -2")
        passed_on = owner.plan("notify 2 0")
        owner.ask(f"start {passed_on}")
        reader.ask("notified_wait 1 0 -2")
        self.assertEqual(reader.ask(f"peek {address} 101"), ["5a" * 100 + "00"])
        writer.ask(f"freeplan {plan}")
        self.assertEqual(writer.ask(f"peek {before} 2"), ["5a5a"])

    def test_the_source_of_a_put(self):
        """The receiver has mapped the memory for sharing the copying, and would unmap it with the plan."""
        writer, reader = self.cluster(1).group([0, 0])
        plan, source, _ = writer.put_plan(reader, 60000, "notify 1 0", region_bytes=1 << 16)
        writer.ask(f"set {source} 0 60000 0x66")
        writer.ask(f"start {plan}")
        reader.ask("notified_wait 0 0 -2")
        address = self.reach(reader, writer.handle(source))
        writer.ask(f"freeplan {plan}")
        with self.assertRaises(harness.Failed):
            reader.ask("notified_wait 0 0 100")  # learns that the plan has gone
        self.assertEqual(reader.ask(f"peek {address} 4"), ["66666666"])

    def test_own(self):
        owner, = self.cluster(1).group([0])
        region, base = owner.region("alloc", 4096)
        attached, own = owner.region("attach", 4096)
        self.assertEqual(self.reach(owner, owner.handle(region)), base)
        self.assertEqual(self.reach(owner, owner.handle(attached, 7, 9)), own + 7)
        owner.ask(f"free {region}")  # reaching the memory does not keep it

    def test_contents_stay_readable(self):
        """After the owner has freed the region, or was killed, and its addresses are used again in other processes."""
        cluster = self.cluster(1, options={"memory.reserved": "16M"})
        owner, other = cluster.group([0, 0])
        for killed in (False, True):
            region, base = owner.region("alloc", 8192)
            handle = owner.handle(region)
            address = self.reach(other, handle)
            owner.ask(f"poke {base} 2 1234")
            if killed:
                owner.kill()
                harness.until(lambda: cluster[0].counts()[0] == 1, "it is gone")
            else:
                owner.ask(f"free {region}")
            self.assertEqual(other.ask(f"peek {address} 2"), ["1234"])
            other.ask(f"poke {address} 2 4321")
            with self.refused("-EFAULT", "was freed"):
                other.ask(f"reach {handle}")
            newer, newer_base = (other if killed else owner).region("alloc", 8192)
            if not killed:
                for _ in range(8):  # the others first
                    if newer_base != base:
                        owner.ask(f"free {newer}")
                        newer, newer_base = owner.region("alloc", 8192)
                self.assertEqual(newer_base, base)  # the address is used again
                elsewhere = self.reach(other, owner.handle(newer))
                owner.ask(f"poke {newer_base} 2 7777")
                self.assertEqual(other.ask(f"peek {elsewhere} 2"), ["7777"])
            self.assertEqual(other.ask(f"peek {address} 2"), ["4321"])

    def test_memory_that_the_owner_had_before(self):
        """Both see what the other one stores; after the region is freed, the owner alone has it."""
        owner, other = self.cluster(1).group([0, 0])
        region, base = owner.region("attach", 100000)
        there = self.reach(other, owner.handle(region, 5000, 90000))
        base += 5000
        owner.ask(f"poke {base} 2 1234")
        self.assertEqual(other.ask(f"peek {there} 2"), ["1234"])
        other.ask(f"poke {there} 2 5678")
        self.assertEqual(owner.ask(f"peek {base} 2"), ["5678"])
        owner.ask(f"free {region}")
        other.ask(f"poke {there} 2 9999")
        self.assertEqual(owner.ask(f"peek {base} 2"), ["5678"])

    def test_refused(self):
        owner, other, far = self.cluster(2).group([0, 0, 1])
        region = owner.alloc(4096)
        handle = owner.handle(region)
        with self.refused("-EFAULT", "on node 0", "put instead"):
            far.ask(f"reach {handle}")
        with self.refused("-EFAULT", "the handle is not set"):
            other.ask(f"reach {'00' * 64}")
        with self.refused("-EFAULT", "the handle"):
            other.ask(f"reach {handle[:40]}{'7' if handle[40] == '6' else '6'}{handle[41:]}")
        self.assertTrue(self.reach(other, handle))

    @unittest.skipUnless(os.geteuid() == 0, "needs processes of two users")
    def test_another_user(self):
        cluster = self.cluster(1)
        cluster.admit_users()
        owner, = cluster.group([0])
        stranger, = cluster.group([0], name="strangers", uid=65534)
        region = owner.alloc(4096)
        with self.refused("-EFAULT", "belongs to another user"):
            stranger.ask(f"reach {owner.handle(region)}")


if __name__ == "__main__":
    harness.main()
