#!/usr/bin/env python3
"""The cost of the largest legal requests for others: the daemon's loop serves them meanwhile, and the memory that one user makes it
hold is limited, without harm to other users. (test_growth.py: how the work grows.)"""

import os
import subprocess
import sys
import threading

import hostile
import wire
import harness  # the path to it is set by hostile

MANY = 65536  # steps: the most of a plan
MIB = 1 << 20
LARGEST = 1 << 20  # ranks of a group


class Watcher(threading.Thread):
    """A client that makes small requests all the time."""

    def __init__(self, node):
        super().__init__(daemon=True)
        self.client, self.answered, self.over = wire.Client(node.socket), 0, threading.Event()
        self.client.ask(wire.hello(admin=True))

    def run(self):
        while not self.over.is_set():
            self.client.ask(wire.admin("nodes"))
            self.answered += 1

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.join()
        self.client.close()


def metric(node, name, **labels):
    families = {family["name"]: family for family in node.tcactl("stats")["families"]}
    return sum(sample["value"] for sample in families.get(name, {"samples": []})["samples"]
               if all(sample["labels"][key] == value for key, value in labels.items()))


class Loop(hostile.HostileCase):
    def node(self):
        """A cluster that lets a user have all this, however small the machine is."""
        return self.cluster(1, options={"limits.bytes_per_user": "4G", "limits.bytes": "4G"})[0]

    def commit(self, client, steps, **arguments):
        kind, body, fds = client.ask(wire.commit(steps, **arguments))
        for fd in fds:
            os.close(fd)
        client.ask(wire.blob(wire.PLAN_RELEASE, wire.number(1, body.get(1, [0])[0])))
        client.events.clear()

    def test_steps(self):
        node = self.node()
        client = self.open(node)
        region, _, handle = client.alloc(MIB)
        put = wire.put(region, handle, wire.contiguous(8), b"")
        for seat in (1, 2):
            slices = metric(node, "tcad_loop_slices")
            with Watcher(node) as watcher:
                self.commit(client, [put] * MANY, seat=seat)
            slices = metric(node, "tcad_loop_slices") - slices
            print(f"{watcher.answered} answers to others during a commit, {slices:.0f} slices")
            self.assertGreater(watcher.answered, 10)
            self.assertGreater(slices, 10)

    def test_long_requests(self):
        """Other threads read, unpack and free long requests; requests stay in order, and the memory that they hold is limited."""
        node = self.node()
        client = self.open(node)
        client.ask(wire.region_alloc(4096))
        long = wire.blob(wire.REGION_ALLOC, wire.number(1, 4096) + wire.blob(99, bytes(48 * MIB)))
        first = client.tag + 1
        for request in (long, wire.region_alloc(4096), long):
            client.send(request)
        for tag in range(first, first + 3):
            self.assertEqual(client.receive()[:2], (tag, wire.REGION_GRANTED))
        gone = self.open(node)
        gone.send(long)
        gone.close()
        harness.until(lambda: metric(node, "tcad_user_bytes", kind="messages") == 0, "nothing of it is left")
        small = self.cluster(1, options={"limits.bytes_per_user": "32M"})[0]
        with self.fails("-EDQUOT", "a long request needs", "limits.bytes_per_user"):
            self.open(small).ask(long)

    def test_long_lists(self):
        """tcactl's lists and explanations are made in slices, and packed by the worker."""
        node = self.node()
        client = self.open(node)
        for _ in range(4000):
            client.ask(wire.commit([wire.notify(0, 0)], seat=2))
        self.assertEqual(len(node.tcactl("plans")["plans"]), 4000)
        _, body, _ = client.ask(wire.commit([wire.notify(0, 0)] * MANY, seat=2))
        plan = f"{client.welcome[5][0]}.{body.get(1, [0])[0]}"
        asker = wire.Client(node.socket)
        asker.ask(wire.hello(admin=True))
        slices = metric(node, "tcad_loop_slices")
        with Watcher(node) as watcher:
            _, body, _ = asker.ask(wire.admin("plan", plan))
        slices = metric(node, "tcad_loop_slices") - slices
        print(f"{len(body[1][0]) >> 20} MiB about a plan: {slices:.0f} slices; {watcher.answered} answers to others")
        self.assertEqual(body[1][0].count(b'"kind"'), MANY)
        self.assertGreater(slices, 10)
        self.assertGreater(watcher.answered, 10)
        asker.send(wire.admin("plan", plan))  # and it ends meanwhile
        client.close()
        self.assertIn(asker.receive()[1], (wire.DOCUMENT, wire.FAILURE))
        asker.close()

    def test_a_long_list_of_regions(self):
        node = self.node()
        clients = [self.open(node) for _ in range(2)]
        handles = [client.alloc(4096)[2] for client in clients for _ in range(4000)]
        for name in ("one", "another"):
            clients[0].ask(wire.blob(wire.PUBLISH, wire.blob(1, name) + wire.blob(2, handles[7])))
        slices = metric(node, "tcad_loop_slices")
        regions = node.regions()
        slices = metric(node, "tcad_loop_slices") - slices
        print(f"{len(regions)} regions: {slices:.0f} slices")
        self.assertEqual(len({region["id"] for region in regions}), len(handles))
        published = {region["id"]: region["published"] for region in regions if region["published"]}
        self.assertEqual(published, {wire.handle_field(handles[7], "region"): ["/another", "/one"]})
        self.assertGreater(slices, 1)
        asker = self.connect(node)
        asker.ask(wire.hello(admin=True))
        asker.send(wire.admin("regions"))  # and they end meanwhile
        for client in clients:
            client.close()
        self.assertEqual(asker.receive()[1], wire.DOCUMENT)

    def test_ends(self):
        """Sessions with thousands of plans end; pings of another client are answered meanwhile."""
        node = self.node()
        plan = wire.commit([wire.notify(0, 0)] * 8, seat=2)

        client = self.open(node)
        for _ in range(4000):
            client.ask(plan)
        with Watcher(node) as watcher:
            client.close()
            harness.until(lambda: node.counts()[2] == 0, "its plans are gone")
        print(f"{watcher.answered} answers while 4000 plans end")
        self.assertGreater(watcher.answered, 10)


class Accounts(hostile.HostileCase):
    """What users make the daemon hold is limited."""

    STRANGER = 65534

    def test_a_user_at_its_limit(self):
        cluster = self.cluster(1, options={"limits.bytes_per_user": "32M", "limits.bytes": "48M"})
        node = cluster[0]
        held = []
        with self.fails("-EDQUOT", "a session needs", f"user {os.geteuid()} holds", "limits.bytes_per_user", str(32 * MIB), "sessions"):
            for _ in range(100):
                held.append(self.open(node, group_size=LARGEST))
        self.assertGreater(len(held), 16)  # a byte for each rank; the list of the ranks is the group's
        self.assertLess(len(held), 32)
        full = metric(node, "tcad_user_bytes", uid=os.geteuid(), kind="sessions")
        for client in held[:6]:
            client.close()
        harness.until(lambda: metric(node, "tcad_user_bytes", uid=os.geteuid(), kind="sessions") < full - 6 * MIB, "six have ended")
        small = self.open(node)
        with self.fails("-EDQUOT", "a plan needs", "limits.bytes_per_user", "close sessions"):
            for _ in range(100):
                small.ask(wire.commit([wire.notify(0, 0)] * 1000))
        self.assertGreater(metric(node, "tcad_user_bytes", uid=os.geteuid(), kind="plans"), 1000)
        if os.geteuid() == 0:
            self.assertEqual(self.stranger(cluster), "fine")
        for client in (*held[6:], small):
            client.close()
        harness.until(lambda: metric(node, "tcad_user_bytes") == 0, "nothing is held for anybody")
        self.open(node, group_size=LARGEST).close()

    def stranger(self, cluster):
        """Another user is not affected; there is also a limit for all users together."""
        os.chmod(cluster.directory, 0o711)
        os.chmod(cluster[0].directory, 0o711)
        here = os.path.dirname(os.path.abspath(__file__))
        text = f"import os, sys\nsys.path.insert(0, {here!r})\nimport wire\nos.setgroups([])\nos.setgid({self.STRANGER})\n" \
               f"os.setuid({self.STRANGER})\nclient = wire.Client({cluster[0].socket!r}).open(group_size={LARGEST})\n" \
               f"client.ask(wire.commit([wire.notify(0, 0)] * 100))\n" \
               f"held = []\ntry:\n    while len(held) < 100:\n        held.append(wire.Client({cluster[0].socket!r}).open(group_size={LARGEST}))\n" \
               f"except wire.Failure as failure:\n    assert 'limits.bytes)' in failure.text, failure.text\n" \
               f"    print('fine', end='')\n"
        done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=harness.DEADLINE_S, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_everything_is_given_back(self):
        """One object of each kind, on two nodes: nothing is left of them. (The daemon checks that, too, when it ends.)"""
        cluster = self.cluster(2)
        actors = cluster.group([0, 0, 1, 1])
        sender, neighbour, far, _ = actors
        source = sender.alloc(MIB)
        for rank, actor in ((1, neighbour), (2, far)):
            region = actor.alloc(MIB)
            actor.ask(f"publish r{rank} {actor.handle(region)}")
            for seat in ("any", "daemon"):
                sender.plan(f"put {source} 0 4096 {actor.handle(region)} 0 4096", f"notify {rank} 0", seat=seat)
        for node in cluster.nodes:
            for kind in ("sessions", "regions"):
                self.assertGreater(metric(node, "tcad_user_bytes", kind=kind), 0)
        self.assertGreater(metric(cluster[0], "tcad_user_bytes", kind="plans"), 0)
        self.assertGreater(metric(cluster[1], "tcad_user_bytes", kind="bindings"), 0)
        self.assertGreater(sum(metric(node, "tcad_user_bytes", kind="groups") for node in cluster.nodes), 0)
        cluster.kill_actors(actors[:2])
        for actor in actors[2:]:
            actor.end()
        for node in cluster.nodes:
            harness.until(lambda: metric(node, "tcad_user_bytes") == 0, "nothing is held for anybody")


if __name__ == "__main__":
    harness.main()
