#!/usr/bin/env python3
"""Full rings, exhausted quotas, no memory: clear errors, and everything else continues."""

import fcntl
import json
import os
import resource
import subprocess
import sys
import unittest

import harness
from harness import Stream

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "hostile"))
import wire  # noqa: E402

MIB = 1 << 20


class Places(harness.Case):
    """A plan may have more targets than a message carries descriptors."""

    RANKS, EACH, BYTES = 8, 6, 3000

    def test_many_places_in_one_plan(self):
        for way in ("push", "ring", "any"):
            with self.subTest(way=way):
                self.scatter(self.cluster(1).group([0] * self.RANKS, name=way, TCA_COPY=way), 1024)

    def test_few_descriptors(self):
        """A process whose limit of descriptors is lower than its plan's number of targets."""
        self.scatter(self.cluster(1).group([0] * self.RANKS), 40)

    def scatter(self, actors, descriptors):
        sender, *others = actors
        resource.prlimit(sender.pid, resource.RLIMIT_NOFILE, (descriptors, descriptors))
        source = sender.alloc(MIB)
        targets = [(actor, [actor.alloc(4096) for _ in range(self.EACH)]) for actor in others]
        steps = []
        for rank, (actor, regions) in enumerate(targets, 1):
            for number, region in enumerate(regions):
                actor.ask(f"set {region} 0 4096 {0xC3}")
                steps.append(f"put {source} {(rank * self.EACH + number) * 4096} {self.BYTES} {actor.handle(region)} 500 {self.BYTES}")
                steps.append(f"notify {rank} {number}")
        self.assertGreaterEqual(len(steps) // 2, 40)
        plan = sender.plan(*steps, seat="client")
        for round in range(3):
            for rank in range(1, self.RANKS):
                for number in range(self.EACH):
                    sender.ask(f"fill {source} {(rank * self.EACH + number) * 4096} {self.BYTES} {round * 100 + rank * 10 + number}")
            sender.ask(f"start {plan}")
            sender.tell(f"wait {plan} -2")
            for rank, (actor, regions) in enumerate(targets, 1):
                for number, region in enumerate(regions):
                    actor.ask(f"notified_wait 0 {number} -2")
                    actor.ask(f"check {region} 500 {self.BYTES} {round * 100 + rank * 10 + number}")
                    actor.ask(f"guarded {region} 500 {self.BYTES} {0xC3}")
            sender.answer()
        actor, regions = targets[-1]
        actor.ask(f"free {regions[-1]}")  # one of many has gone
        with self.refused("-ESTALE"):
            harness.until(lambda: sender.ask(f"start {plan}") and sender.ask(f"wait {plan} -2") and False, "it breaks", pause=0.05)


class Rings(harness.Case):
    RING = 256       # submissions of one channel
    IN_FLIGHT = 1024  # starts that may be in flight

    def stopped(self, daemon):
        """The daemon is stopped: starts stay in the rings."""
        daemon.pause()
        self.addCleanup(daemon.resume)

    def test_full_submission_ring(self):
        cluster = self.cluster(1, options={"limits.plans_per_session": 2000})
        worker, = cluster.group([0])
        source = worker.alloc(4096)
        target = worker.alloc(4096)
        handle = worker.handle(target)
        plans = [worker.plan(f"put {source} {i} 1 {handle} {i} 1", seat="daemon") for i in range(self.RING + 10)]
        worker.ask(f"fill {source} 0 4096 1")
        self.stopped(cluster[0])
        with self.refused("-EAGAIN", "full") as refusal:
            worker.ask(f"starts {plans[0]} {plans[-1]}")
        self.assertEqual(refusal.text.split()[0], str(self.RING))
        self.assertEqual(worker.ask(f"test {plans[0]}"), ["0"], "a daemon that stands still has run it")
        with self.refused("-EBUSY"):
            worker.ask(f"start {plans[0]}")
        cluster[0].resume()
        worker.ask(f"waits {plans[0]} {plans[self.RING - 1]} -2")
        worker.ask(f"check {target} 0 {self.RING} 1")
        worker.ask(f"starts {plans[0]} {plans[self.RING - 1]}")
        worker.ask(f"waits {plans[0]} {plans[self.RING - 1]} -2")

    def test_too_many_in_flight(self):
        """The limit is the session's, whether starts are in a ring or wait for a notification."""
        cluster = self.cluster(1, options={"limits.plans_per_session": 3000})
        worker, master = cluster.group([0, 0])
        for slot, steps in ((9, ["notify 0 9"]), (10, ["await 1 0 1", "notify 0 10"])):
            with self.subTest(steps=steps):
                waiting = len(steps) > 1
                plans = [worker.plan(*steps, seat="daemon", channel=i * 4 // self.IN_FLIGHT) for i in range(self.IN_FLIGHT)]
                spare = worker.plan(f"notify 0 {slot + 10}", seat="daemon", channel=3)
                key = master.plan("notify 0 0")
                if not waiting:
                    self.stopped(cluster[0])
                worker.ask(f"starts {plans[0]} {plans[-1]}")
                with self.refused("-EAGAIN", "full"):
                    worker.ask(f"start {spare}")
                if not waiting:
                    cluster[0].resume()
                for _ in range(self.IN_FLIGHT if waiting else 0):
                    master.run(key)
                worker.ask(f"waits {plans[0]} {plans[-1]} -2")
                self.assertEqual(worker.ask(f"count 0 {slot}"), [str(self.IN_FLIGHT)])
                worker.ask(f"start {spare}")
                worker.ask(f"notified_wait 0 {slot + 10} -2")


class Leaving(harness.Case):
    """A plan that was freed is released when its data has arrived; what then fits is not refused meanwhile."""

    def test_what_a_freed_plan_has_can_be_used_again(self):
        cluster = self.cluster(2, options={"limits.plans_per_session": 1, "rails.enable": "tcp"})
        sender, receiver = cluster.group([0, 1])
        own = sender.alloc(4096)
        target = receiver.alloc(4096)
        for again in (lambda source: f"free {source}", lambda source: f"commit {self.local(sender, own)} -2"):
            source = sender.alloc(4096)
            sender.ask(f"fill {source} 0 64 9")
            receiver.ask(f"set {target} 0 64 0")
            plan = sender.plan(f"put {source} 0 64 {receiver.handle(target)} 0 64", "notify 1 0", rail="tcp", seat="daemon")
            for pause in (lambda: None, cluster[1].pause):
                pause()
                sender.run(plan)
            sender.ask(f"freeplan {plan}")  # waits for nobody
            command = again(source)
            self.assertEqual([plan["state"] for plan in cluster[0].plans()], ["releasing"])
            sender.tell(command)
            cluster[1].resume()
            sender.answer()
            for _ in range(2):
                receiver.ask("notified_wait 0 0 -2")
            receiver.ask(f"check {target} 0 64 9")

    def test_plans_freed_one_after_another_are_released_together(self):
        plans = 20  # more than a batch
        cluster = self.cluster(2, options={"limits.plans_per_session": plans, "rails.enable": "tcp"})
        sender, receiver = cluster.group([0, 1])
        source = sender.alloc(4096)
        target = receiver.alloc(4096)
        for _ in range(3):  # each needs the places of the one before
            made = [sender.plan(f"put {source} 0 64 {receiver.handle(target)} 0 64", seat="daemon") for _ in range(plans)]
            for plan in made:
                sender.ask(f"start {plan}")
                sender.ask(f"wait {plan} -2")
            for plan in made:
                sender.ask(f"freeplan {plan}")
        harness.until(lambda: not cluster[0].plans(), "the last ones are released, too, without another request")

    @staticmethod
    def local(actor, region):
        plan, = actor.ask("plan local any daemon 0")
        actor.ask(f"put {plan} {region} 0 64 {actor.handle(region)} 64 64")
        return plan


class Quotas(harness.Case):
    def one(self, nodes=1, **options):
        cluster = self.cluster(nodes, options={key.replace("__", "."): value for key, value in options.items()})
        actor = cluster.actor()
        actor.ask("open - 0 0 -2")
        return cluster, actor

    def test_sessions(self):
        cluster, _ = self.one(limits__sessions=3, limits__sessions_per_user=3)
        holder = cluster.actor()
        self.assertEqual(holder.ask("hold 2"), ["2"])
        more = cluster.actor()
        with self.refused("-EDQUOT", "limits.sessions", "3"):
            more.ask("open - 0 0 -2")
        holder.ask("")
        harness.until(lambda: cluster[0].counts()[0] == 1, "they are closed")
        more.ask("open - 0 0 -2")

    def test_sessions_one_after_the_other(self):
        """Those that have ended, but that the engine, which gets hardly a processor, has yet to let go are in nobody's way: where they are
        too many, hellos wait."""
        cluster, _ = self.one(limits__sessions=33, limits__sessions_per_user=33)
        for _ in range(os.cpu_count()):
            process = subprocess.Popen(["sh", "-c", "while :; do :; done"])
            self.addCleanup(process.wait)
            self.addCleanup(process.kill)
        for thread in os.listdir(f"/proc/{cluster[0].process.pid}/task"):
            with open(f"/proc/{cluster[0].process.pid}/task/{thread}/comm", encoding="ascii") as name:
                if name.read().strip() == "tcad-engine":
                    os.sched_setscheduler(int(thread), os.SCHED_IDLE, os.sched_param(0))
        holder = cluster.actor()
        for _ in range(6):
            self.assertEqual(holder.ask("hold 32"), ["32"])
            holder.ask("")

    def test_sessions_per_user(self):
        cluster, _ = self.one(limits__sessions_per_user=1)
        with self.refused("-EDQUOT", "limits.sessions_per_user", "1"):
            cluster.actor().ask("open - 0 0 -2")

    def test_regions(self):
        _, actor = self.one(limits__regions_per_session=2)
        regions = [actor.alloc(4096) for _ in range(2)]
        with self.refused("-EDQUOT", "limits.regions_per_session", "2"):
            actor.alloc(4096)
        actor.ask(f"free {regions[0]}")
        actor.alloc(4096)

    def test_region_bytes(self):
        cluster, actor = self.one(memory__region_bytes_per_user="4M")
        other = cluster.actor()
        other.ask("open - 0 0 -2")
        region = actor.alloc(3 * MIB)
        other.alloc(MIB)
        with self.refused("-EDQUOT", "memory.region_bytes_per_user", str(4 * MIB)):
            other.alloc(1)
        self.assertEqual(cluster[0].tcactl("status")["regions"]["bytes"], 4 * MIB)
        actor.ask(f"free {region}")
        other.alloc(1)

    def test_region_bytes_of_a_session(self):
        cluster, actor = self.one(memory__region_bytes_per_session="2M", memory__region_bytes_per_user="3M")
        region = actor.alloc(2 * MIB)
        with self.refused("-EDQUOT", "memory.region_bytes_per_session", str(2 * MIB)):
            actor.alloc(1)
        other = cluster.actor()
        other.ask("open - 0 0 -2")
        with self.refused("-EDQUOT", "memory.region_bytes_per_user", str(3 * MIB)):
            other.alloc(2 * MIB)
        other.alloc(MIB)
        actor.ask(f"free {region}")
        actor.alloc(MIB)

    @unittest.skipIf(os.geteuid(), "only root can be several users")
    def test_region_bytes_of_the_node(self):
        """The rest of the node's quota is less than a user's."""
        cluster, actor = self.one(memory__region_bytes="3M", memory__region_bytes_per_user="2M")
        os.chmod(cluster.directory, 0o755)
        os.chmod(cluster[0].directory, 0o755)
        region = actor.alloc(2 * MIB)
        with wire.Client.of_user(65534, cluster[0].socket) as other:
            other.open()
            with self.assertRaises(wire.Failure) as caught:
                other.alloc(2 * MIB)
            self.assertEqual(caught.exception.name, "-EDQUOT")
            self.assertIn("node node0 has", caught.exception.text)
            self.assertIn("memory.region_bytes)", caught.exception.text)
            other.alloc(MIB)
            with self.refused("-EDQUOT", "memory.region_bytes_per_user"):
                actor.alloc(1)
            actor.ask(f"free {region}")
            actor.alloc(MIB)

    def test_memory_that_is_freed_and_taken_again(self):
        """A target stays in use for a moment after it was freed. It counts until then, and no allocation is refused for that."""
        size, rounds = 8 * MIB, 50
        cluster = self.cluster(1, options={"memory.region_bytes_per_user": f"{size + 2 * MIB}"})
        client = wire.Client(cluster[0].socket).open()
        source, _, _ = client.alloc(MIB)
        region, _, handle = client.alloc(size)
        for _ in range(rounds):
            puts = [wire.put(source, handle, wire.contiguous(MIB), b"", target_offset=at * MIB) for at in range(8)]
            plans = [client.ask(wire.commit([put], seat=2))[1].get(1, [0])[0] for put in puts]
            client.send(wire.blob(wire.REGION_FREE, wire.number(1, region)))
            freed = client.tag
            client.send(wire.region_alloc(size))  # does not wait for the reply
            self.assertEqual(self.next_answer(client)[0], freed)
            _, kind, body, fds = self.next_answer(client)
            self.assertEqual(kind, wire.REGION_GRANTED, body)
            os.posix_fallocate(fds[0], 0, size)
            os.close(fds[0])
            region, handle = body[1][0], body[4][0]
            self.assertLessEqual(self.held(cluster)["region_bytes"], size + 2 * MIB)
            for plan in plans:
                client.ask(wire.blob(wire.PLAN_RELEASE, wire.number(1, plan)))
        client.ask(wire.blob(wire.REGION_FREE, wire.number(1, region)))
        harness.until(lambda: self.held(cluster)["region_bytes"] == MIB, "it is given back")
        self.assertEqual(self.held(cluster)["region_bytes_freed"], 0)
        client.close()

    @staticmethod
    def next_answer(client):
        while True:
            answer = client.receive()
            if answer[1] != wire.EVENT:
                return answer

    def test_users(self):
        """tcactl shows a user's actual resources."""
        cluster, actor = self.one()
        before = self.held(cluster)
        region = actor.alloc(3 * MIB)
        plan = actor.plan(f"put {region} 0 8 {actor.handle(region)} 8 8", seat="daemon")
        with_all = self.held(cluster)
        for key, more in {"sessions": 0, "regions": 1, "plans": 1, "region_bytes": 3 * MIB, "descriptors": 1}.items():
            self.assertEqual(with_all[key], before[key] + more, key)
        self.assertGreater(with_all["kinds"]["plans"], before["kinds"]["plans"])
        self.assertEqual(sum(with_all["kinds"].values()), with_all["bytes"])
        actor.ask(f"freeplan {plan}")
        actor.ask(f"free {region}")
        harness.until(lambda: self.held(cluster) == before, "everything is given back")
        cluster.kill_actors([actor])
        harness.until(lambda: not cluster[0].tcactl("users")["users"], "nobody holds anything")

    @staticmethod
    def held(cluster):
        user, = cluster[0].tcactl("users")["users"]
        return user

    def test_regions_take_descriptors(self):
        cluster = self.cluster(1)
        limit = 1200
        cluster[0].kill()
        cluster[0].start(limit)
        cluster[0].wait_ready()
        quota = (limit - cluster[0].metric("tcad_descriptors_reserved")) // 4 * 3
        with wire.Client(cluster[0].socket) as client:
            client.open()
            memory = os.memfd_create("in place", os.MFD_ALLOW_SEALING)
            self.addCleanup(os.close, memory)
            os.truncate(memory, 8192)
            fcntl.fcntl(memory, 1033, 7)  # F_ADD_SEALS: seal, shrink, grow
            for _ in range(50):
                client.ask(wire.region_alloc(4096, wire.IN_PLACE, 4096), [memory])
            for _ in range(quota - 54):  # a session has four
                client.alloc(4096)
            with self.assertRaises(wire.Failure) as caught:
                client.alloc(4096)
            self.assertEqual(caught.exception.name, "-EDQUOT", caught.exception.text)
            for text in "descriptors", str(quota), "LimitNOFILE=":
                self.assertIn(text, caught.exception.text)

    def test_plans_and_steps(self):
        _, actor = self.one(limits__plans_per_session=2, limits__steps_per_session=5)
        plans = [actor.plan("notify 0 0") for _ in range(2)]
        with self.refused("-EDQUOT", "limits.plans_per_session", "2"):
            actor.plan("notify 0 0")
        actor.ask(f"freeplan {plans[0]}")
        with self.refused("-EDQUOT", "limits.steps_per_session", "5"):
            actor.plan(*["notify 0 0"] * 5)
        actor.plan(*["notify 0 0"] * 4)

    def test_plan_bytes(self):
        """Plans count by the memory that they hold, not only by number."""
        _, actor = self.one(limits__plan_bytes_per_session="1M")
        with self.refused("-EDQUOT", "limits.plan_bytes_per_session", str(MIB)):
            actor.plan(*["notify 0 0"] * 20000)
        actor.plan("notify 0 0")

    def test_notification_counters(self):
        """A slot can be any number. Its counter is charged once, when a plan first uses it, until the session ends."""
        cluster, actor = self.one(limits__bytes_per_user="4M")

        def counters():
            return (self.held(cluster)["kinds"]["sessions"] - before) // 256

        before = self.held(cluster)["kinds"]["sessions"]
        slots = (0, 191, 192, (1 << 31) - 1, 1 << 31, (1 << 32) - 1)
        for _ in range(2):
            for seat in ("client", "daemon"):
                plan = actor.plan(*(f"notify 0 {slot}" for slot in slots), *(f"await 0 {slot} 1" for slot in slots), seat=seat)
                actor.run(plan)
                actor.ask(f"freeplan {plan}")
                self.assertEqual(counters(), len(slots))
        with self.refused("-EDQUOT", "limits.bytes_per_user", "a notification counter"):
            for first in range(1000, 1 << 20, 1000):
                actor.ask(f"freeplan {actor.plan(*(f'notify 0 {first + i}' for i in range(1000)))}")
        actor.plan("notify 0 191")
        self.assertGreater(counters(), 1000)
        cluster.kill_actors([actor])
        harness.until(lambda: not cluster[0].tcactl("users")["users"], "nobody holds anything")

    def test_groups(self):
        cluster = self.cluster(1, options={"limits.groups_per_user": 1})
        cluster.group([0], name="one")
        with self.refused("-EDQUOT", "limits.groups_per_user", "1"):
            cluster.actor().ask("open two 0 1 -2")

    def test_published(self):
        cluster = self.cluster(1, options={"limits.published_per_group": 2})
        actor, = cluster.group([0])
        region = actor.alloc(4096)
        handle = actor.handle(region)
        for name in ("a", "b", "a"):
            actor.ask(f"publish {name} {handle}")
        with self.refused("-EDQUOT", "limits.published_per_group", "2"):
            actor.ask(f"publish c {handle}")
        actor.ask("publish a -")
        actor.ask(f"publish c {handle}")

    def test_refusals_leave_nothing(self):
        """Thousands of refused requests cost the daemon nothing."""
        cluster, actor = self.one(limits__regions_per_session=1, limits__plans_per_session=1)
        region = actor.alloc(4096)
        actor.plan("notify 0 0")

        def refuse(times):
            for _ in range(times):
                with self.refused("-EDQUOT"):
                    actor.alloc(4096)
                with self.refused("-EDQUOT"):
                    actor.plan("notify 0 0")
        refuse(50)
        fds, memory = cluster[0].fds(), cluster[0].memory_kib()
        refuse(1000)
        self.assertEqual(cluster[0].fds(), fds)
        self.assertLess(cluster[0].memory_kib(), memory + 1024 * harness.SLOW)


@unittest.skipIf(os.geteuid(), "only root can be several users")
class Privacy(harness.Case):
    """What tcactl shows to which user."""

    def seen(self, uid, node, session, plan):
        """How many sessions, regions and published names a user sees, and the result of a request for a plan."""
        with wire.Client.of_user(uid, node.socket) as client:
            client.ask(wire.hello(admin=True))

            def document(verb, argument=""):
                return json.loads(client.ask(wire.admin(verb, argument))[1][1][0])
            self.assertEqual(document("status")["sessions"], 2)  # totals are for all
            regions = document("regions")["regions"]
            try:
                document("plan", f"{session}.{plan}")
                explained = True
            except wire.Failure as failure:
                self.assertEqual(failure.name, "-ENOENT")
                explained = False
            return (len(document("sessions")["sessions"]), len(regions), sum(len(region["published"]) for region in regions),
                    len(document("plans")["plans"]), explained)

    def test_private(self):
        for private in "no", "yes":
            with self.subTest(private=private):
                cluster = self.cluster(1, options={"control.private": private})
                os.chmod(cluster.directory, 0o755)
                os.chmod(cluster[0].directory, 0o755)
                actor, = cluster.group([0])
                region = actor.alloc(4096)
                actor.ask(f"publish halo {actor.handle(region)}")
                actor.plan("notify 0 0")
                session, plan = cluster[0].plans()[0]["id"].split(".")
                with wire.Client.of_user(65534, cluster[0].socket) as other:
                    other.open()
                    other.alloc(4096)
                    mine, all_of_it = (1, 1, 0, 0, False), (2, 2, 1, 1, True)
                    self.assertEqual(self.seen(0, cluster[0], session, plan), all_of_it)
                    self.assertEqual(self.seen(65534, cluster[0], session, plan), all_of_it if private == "no" else mine)
                    self.assertEqual(self.seen(65533, cluster[0], session, plan),
                                     all_of_it if private == "no" else (0, 0, 0, 0, False))


class Memory(harness.Case):
    def at_work(self, **options):
        """A daemon that moves data for a pair of clients, a third one, and its process id."""
        cluster = self.cluster(1, options=options)
        sender, receiver = cluster.group([0, 0])
        stream = Stream(sender, receiver, seat="daemon")
        stream.begin()
        other = cluster.actor()
        other.ask("open - 0 0 -2")
        return cluster, stream, other, cluster[0].process.pid

    def test_larger_than_the_machine(self):
        """Within the quota, but refused by the kernel."""
        cluster = self.cluster(1, options={"memory.region_bytes_per_user": "64T", "memory.reserved": "90T"})
        sender, receiver = cluster.group([0, 0])
        stream = Stream(sender, receiver)
        stream.begin()
        other = cluster.actor()
        other.ask("open - 0 0 -2")
        before = cluster[0].counts()
        with self.refused("-ENOMEM", str(60 << 40), "available"):
            other.alloc(60 << 40)
        with self.refused("-EDQUOT", "memory.region_bytes_per_user"):
            other.alloc(80 << 40)
        with self.refused("-EINVAL", "memory.reserved"):
            other.alloc(95 << 40)
        self.assertEqual(cluster[0].counts(), before)
        other.alloc(MIB)
        self.assertGreater(stream.finish(), 0)

    def test_no_address_space(self):
        """The daemon itself runs out of memory: requests get an error, established traffic continues."""
        if "libasan" in open("/proc/self/maps", encoding="ascii").read() or harness.SLOW > 1:
            self.skipTest("a sanitizer needs the address space itself")
        cluster, stream, other, pid = self.at_work()
        with open(f"/proc/{pid}/statm", encoding="ascii") as statm:
            used = int(statm.read().split()[0]) * resource.getpagesize()
        resource.prlimit(pid, resource.RLIMIT_AS, (used + 16 * MIB, resource.RLIM_INFINITY))
        with self.refused("-ENOMEM", str(64 * MIB)):
            other.alloc(64 * MIB)
        resource.prlimit(pid, resource.RLIMIT_AS, (used, resource.RLIM_INFINITY))
        with self.refused("-ENOMEM"):
            other.alloc(8 * MIB)
        another = cluster.actor()
        try:  # there may just be room for the segments of another session
            another.ask("open - 0 0 -2")
        except harness.Failed as failed:
            self.assertEqual(failed.name, "-ENOMEM", failed.text)
        resource.prlimit(pid, resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        other.alloc(64 * MIB)
        self.assertGreater(stream.finish(), 0)

    def test_no_long_files(self):
        """A daemon under RLIMIT_FSIZE: regions and segments are files. Requests get an error, others do not notice."""
        cluster, stream, other, pid = self.at_work()
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (65536, resource.RLIM_INFINITY))
        with self.refused("-EFBIG", str(MIB), "LimitFSIZE="):
            other.alloc(MIB)
        other.alloc(65536)
        another = cluster.actor()
        with self.refused("-EFBIG", "LimitFSIZE="):
            another.ask("open - 0 0 -2")
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        other.alloc(MIB)
        another.ask("open - 0 0 -2")
        self.assertGreater(stream.finish(), 0)

    def test_no_descriptors(self):
        """No descriptors left: new sessions fail, old ones continue, and later all is as before."""
        cluster, stream, other, pid = self.at_work(**{"rails.enable": "shm"})  # ofi keeps some, and releases them
        source = other.alloc(4096)
        fds, limits = cluster[0].fds(), resource.prlimit(pid, resource.RLIMIT_NOFILE)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (fds + 2, limits[1]))
        late = cluster.actor()
        with self.refused("-EMFILE", "LimitNOFILE="):
            late.ask("open - 0 0 -2")  # accepted, but without segments
        with self.refused("-EMFILE", "LimitNOFILE=", str(MIB)):
            while True:
                other.alloc(MIB)
                fds += 1
        harness.until(lambda: cluster[0].fds() <= fds, "what was refused is closed")
        used = {int(name) for name in os.listdir(f"/proc/{pid}/fd")}
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (min(set(range(len(used) + 1)) - used), limits[1]))
        for _ in range(5):  # not even a connection
            with self.refused("-EMFILE", "LimitNOFILE="):
                cluster.actor().ask("open - 0 0 -2")
        self.assertIn("LimitNOFILE=", cluster[0].tcactl_raw("status").stderr)
        with self.refused("-EMFILE", "LimitNOFILE="):  # a commit so long that it travels as a file
            other.plan(*[f"put {source} 0 8 {other.handle(source)} 8 8"] * 2000)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, limits)
        other.alloc(MIB)
        harness.until(lambda: not self.open_fails(late), "sessions can be opened again")
        self.assertGreater(stream.finish(), 0)

    @staticmethod
    def open_fails(actor):
        try:
            actor.ask("open - 0 0 -2")
        except harness.Failed as failed:
            return failed
        return None


class Layouts(harness.Case):
    RAILS = "shm ofi"
    BLOCKS = 30000
    PAIR_BYTES = 16  # of a block in an indexed layout (proto/layout.h)
    COMPILED_BYTES = 4  # per block at least, in a driver's program that packs or scatters

    def held(self, node, kind):
        return sum(user["kinds"][kind] for user in node.tcactl("users")["users"])

    def test_compiled(self):
        """The drivers' programs for a layout, at both ends, count as well as the layout itself."""
        cluster = self.cluster(2)
        sender, receiver = cluster.group([0, 1])
        source = sender.alloc(1 << 20)
        target = receiver.alloc(1 << 20)
        before = self.held(cluster[0], "plans"), self.held(cluster[1], "bindings")
        shape = f"{self.BLOCKS}x8x24i"
        plan = sender.plan(f"put {source} 0 {shape} {receiver.handle(target)} 0 {shape}", "notify 1 0", rail="ofi", seat="daemon")
        held = self.held(cluster[0], "plans") - before[0], self.held(cluster[1], "bindings") - before[1]
        self.assertGreater(held[0], self.BLOCKS * (2 * self.PAIR_BYTES + self.COMPILED_BYTES))
        self.assertGreater(held[1], self.BLOCKS * (self.PAIR_BYTES + self.COMPILED_BYTES))
        sender.ask(f"freeplan {plan}")
        harness.until(lambda: (self.held(cluster[0], "plans"), self.held(cluster[1], "bindings")) == before, "all of it is given back")


if __name__ == "__main__":
    harness.main()
