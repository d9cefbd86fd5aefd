#!/usr/bin/env python3
"""Who pays for a region's memory: the process that allocates it makes the pages, within the limit of its control group."""

import ctypes
import os
import signal
import sys

import harness

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "hostile"))
import wire  # noqa: E402

MIB = 1 << 20
PUNCH_HOLE, KEEP_SIZE = 2, 1
libc = ctypes.CDLL(None, use_errno=True)
libc.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]


class Group:
    """A control group below this process's with a memory limit, of either version; OSError without permission."""

    def __init__(self, limit):
        with open("/proc/self/cgroup", encoding="ascii") as lines:
            ours = {line.split(":")[1]: line.strip().split(":", 2)[2] for line in lines}
        if "memory" in ours:
            self.base, names = "/sys/fs/cgroup/memory" + ours["memory"], ("memory.limit_in_bytes", "memory.usage_in_bytes")
        else:
            self.base, names = "/sys/fs/cgroup" + ours[""], ("memory.max", "memory.current")
        self.path = os.path.join(self.base, f"tca-test-{os.getpid()}")
        os.mkdir(self.path)
        try:
            with open(os.path.join(self.path, names[0]), "w", encoding="ascii") as file:
                file.write(str(limit))
        except OSError:
            os.rmdir(self.path)
            raise
        self.used_file = os.path.join(self.path, names[1])

    def add(self, pid):
        with open(os.path.join(self.path, "cgroup.procs"), "w", encoding="ascii") as procs:
            procs.write(str(pid))

    def used(self):
        with open(self.used_file, encoding="ascii") as file:
            return int(file.read())

    def remove(self):
        def gone():
            try:
                os.rmdir(self.path)
            except OSError:
                return False
            return True
        harness.until(gone, "nobody is in the control group any more")


class ControlGroups(harness.Case):
    LIMIT = 256 * MIB if harness.SLOW > 1 else 64 * MIB  # a sanitizer needs more

    def confined(self, cluster, count=1):
        try:
            group = Group(self.LIMIT)
        except (OSError, KeyError) as why:
            self.skipTest(f"control groups cannot be made here: {why}")
        self.addCleanup(group.remove)
        actors = [cluster.actor() for _ in range(count)]
        for actor in actors:
            self.addCleanup(actor.kill)
            group.add(actor.pid)
        return group, actors

    def test_a_region_counts_in_its_job(self):
        cluster = self.cluster(1)
        group, (actor,) = self.confined(cluster)
        actor.ask("open - 0 0 -2")
        before = group.used()
        region = actor.alloc(self.LIMIT // 2)
        self.assertGreaterEqual(group.used() - before, self.LIMIT // 2 * 9 // 10)
        actor.ask(f"free {region}")
        harness.until(lambda: group.used() - before < self.LIMIT // 4, "it is given back")
        for size in (self.LIMIT, 16 * self.LIMIT):
            with self.refused("-ENOMEM", str(size), "control group", "limit"):
                actor.alloc(size)
        self.assertEqual(cluster[0].counts(), (1, 0, 0))
        actor.alloc(self.LIMIT // 2)

    def test_memory_that_a_process_had_before_counts_in_its_job(self):
        cluster = self.cluster(1)
        group, (actor,) = self.confined(cluster)
        actor.ask("open - 0 0 -2")
        before = group.used()
        region = actor.attach(self.LIMIT // 4)
        actor.ask(f"fill {region} 0 {self.LIMIT // 4} 1")
        target = actor.alloc(4096)
        plan = actor.plan(f"put {region} 0 4096 {actor.handle(target)} 0 4096", seat="daemon")
        self.assertGreaterEqual(group.used() - before, self.LIMIT // 4 * 9 // 10)
        actor.run(plan)
        actor.ask(f"check {target} 0 4096 1")


class Pages(harness.Case):
    def raw(self, cluster):
        client = wire.Client(cluster[0].socket).open()
        self.addCleanup(client.close)
        return client

    def ask_for(self, client, size):
        """Region, handle, and the descriptor of its memory, which was never touched."""
        _, body, (fd,) = client.ask(wire.region_alloc(size))
        self.addCleanup(os.close, fd)
        return body[1][0], body[4][0], fd

    def refused_by_rail(self, client, steps, seat=2):
        with self.assertRaises(wire.Failure) as caught:
            client.ask(wire.commit(steps, seat=seat))
        self.assertEqual(caught.exception.name, "-EFAULT", caught.exception.text)
        self.assertIn("pages", caught.exception.text)

    def test_the_daemon_touches_nothing_first(self):
        """The daemon makes no pages, neither for the region nor for a rail."""
        cluster = self.cluster(1)
        client = self.raw(cluster)
        made, made_handle, made_fd = self.ask_for(client, MIB)
        os.posix_fallocate(made_fd, 0, MIB)
        region, handle, fd = self.ask_for(client, 8 * MIB)
        self.assertEqual(os.fstat(fd).st_blocks, 0)
        block = wire.contiguous(65536)
        self.refused_by_rail(client, [wire.put(region, made_handle, block, block)])
        self.refused_by_rail(client, [wire.put(made, handle, block, block)])
        self.assertEqual(os.fstat(fd).st_blocks, 0)
        os.posix_fallocate(fd, 0, 8 * MIB - 4096)  # all but one page
        self.refused_by_rail(client, [wire.put(made, handle, block, block)])
        os.posix_fallocate(fd, 0, 8 * MIB)
        client.ask(wire.commit([wire.put(made, handle, block, block), wire.put(region, made_handle, block, block)], seat=2))

    def test_pages_taken_away(self):
        """A process that removes pages which the daemon uses harms no other."""
        cluster = self.cluster(1)
        stream = harness.Stream(*cluster.group([0, 0]), seat="daemon")
        sender = cluster.actor()
        sender.ask("open - 0 0 -2")
        client = self.raw(cluster)
        _, handle, fd = self.ask_for(client, 8 * MIB)
        os.posix_fallocate(fd, 0, 8 * MIB)
        source = sender.alloc(8 * MIB)
        sender.ask(f"fill {source} 0 {8 * MIB} 3")
        stream.begin()
        for seat in "daemon", "client":
            plan = sender.plan(f"put {source} 0 {8 * MIB} {handle.hex()} 0 {8 * MIB}", seat=seat)
            for _ in range(3):
                self.assertEqual(libc.fallocate(fd, PUNCH_HOLE | KEEP_SIZE, 0, 8 * MIB), 0, os.strerror(ctypes.get_errno()))
                sender.run(plan)
        self.assertGreater(stream.finish(), 0)

    def test_a_process_that_dies_while_it_makes_them(self):
        cluster = self.cluster(1)
        client = wire.Client(cluster[0].socket).open()
        for _ in range(8):
            _, _, (fd,) = client.ask(wire.region_alloc(64 * MIB))
            os.posix_fallocate(fd, 0, MIB)
            os.close(fd)
        client.close()
        harness.until(lambda: cluster[0].counts() == (0, 0, 0), "all of it is gone")
        self.assertEqual(cluster[0].tcactl("status")["regions"]["bytes"], 0)


class Mappings(harness.Case):
    """What a process has mapped of another's regions, and keeps for later plans."""

    COUNT = 200  # regions: more than one message names
    UNUSED = 32  # of those that no plan uses, so many stay mapped

    def mapped(self, actor):
        with open(f"/proc/{actor.pid}/maps", encoding="ascii") as maps:
            return sum("tca-region" in line for line in maps)

    def given_up(self, actor, count):
        """It unmaps them when it learns of the end: in any call of the library."""
        def look():
            actor.ask("dispatch")
            return self.mapped(actor) == count
        harness.until(look, f"{count} mappings")

    def test_freed_regions(self):
        owner, peer = self.cluster(1).group([0, 0])
        source = peer.alloc(4096)
        before = self.mapped(peer)
        regions = [owner.alloc(4096) for _ in range(self.COUNT)]
        for region in regions:
            peer.ask(f"freeplan {peer.plan(f'put {source} 0 8 {owner.handle(region)} 0 8', seat='client')}")
        kept = owner.alloc(4096)
        plan = peer.plan(f"put {source} 0 8 {owner.handle(kept)} 0 8", seat="client")
        self.assertEqual(self.mapped(peer), before + self.UNUSED + 1)
        harness.stop(peer.pid)
        for region in [*regions, kept]:
            owner.ask(f"free {region}")
        os.kill(peer.pid, signal.SIGCONT)
        self.given_up(peer, before + 1)  # that of the plan
        with self.refused("-ESTALE", "was freed"):
            peer.ask(f"start {plan}")
        peer.ask(f"freeplan {plan}")
        self.given_up(peer, before)

    def test_the_end_of_the_owner(self):
        cluster = self.cluster(1)
        owner, peer = cluster.group([0, 0])
        source = peer.alloc(4096)
        before = self.mapped(peer)
        for _ in range(3):
            region = owner.alloc(4096)
            peer.ask(f"freeplan {peer.plan(f'put {source} 0 8 {owner.handle(region)} 0 8', seat='client')}")
        self.assertEqual(self.mapped(peer), before + 3)
        cluster.kill_actors([owner])
        self.given_up(peer, before)

    def test_what_is_told_ends_with_its_session(self):
        """The peer ends before it is notified, and with it the daemon's record of its mappings."""
        cluster = self.cluster(1)
        for stopped in (False, True):
            owner, peer = cluster.group([0, 0], name=f"job{stopped}")
            source = peer.alloc(4096)
            regions = [owner.alloc(4096) for _ in range(self.COUNT)]
            for region in regions:
                peer.ask(f"freeplan {peer.plan(f'put {source} 0 8 {owner.handle(region)} 0 8', seat='client')}")
            if stopped:
                harness.stop(peer.pid)
                for region in regions:
                    owner.ask(f"free {region}")
            cluster.kill_actors([peer])
            self.assertIsNone(owner.end())
            harness.until(lambda: cluster[0].counts() == (0, 0, 0), "nothing is left")


if __name__ == "__main__":
    harness.main()
