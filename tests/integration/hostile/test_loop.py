#!/usr/bin/env python3
"""The cost of the largest legal requests for others: the daemon's loop serves them meanwhile, its work grows linearly with the
request, and the memory that one user makes it hold is limited, without harm to other users."""

import os
import subprocess
import sys
import threading

import hostile
import wire
import harness  # the path to it is set by hostile

MANY, FEW = 65536, 8192  # steps: the most of a plan, and an eighth
MIB = 1 << 20
# Large allocations come fresh from the kernel each time, page by page: otherwise FEW would reuse its pages, and MANY, which exceeds
# what malloc keeps, would not.
os.environ["GLIBC_TUNABLES"] = "glibc.malloc.mmap_threshold=131072"


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


def loop_ns(node):
    """CPU time of the loop's thread so far, regardless of other load."""
    with open(f"/proc/{node.process.pid}/schedstat", encoding="ascii") as stat:
        return int(stat.read().split()[0])


def worker_ns(node):
    """The same of the worker's thread."""
    tasks = f"/proc/{node.process.pid}/task"
    for task in os.listdir(tasks):
        with open(f"{tasks}/{task}/comm", encoding="ascii") as comm:
            if comm.read().strip() != "tcad-worker":
                continue
        with open(f"{tasks}/{task}/schedstat", encoding="ascii") as stat:
            return int(stat.read().split()[0])
    raise LookupError("no worker")


def metric(node, name, **labels):
    families = {family["name"]: family for family in node.tcactl("stats")["families"]}
    return sum(sample["value"] for sample in families.get(name, {"samples": []})["samples"]
               if all(sample["labels"][key] == value for key, value in labels.items()))


class Loop(hostile.HostileCase):
    def node(self):
        """A cluster that lets a user have all this, however small the machine is."""
        return self.cluster(1, options={"limits.bytes_per_user": "4G", "limits.bytes": "4G"})[0]

    def cost(self, node, work):
        before = loop_ns(node)
        work()
        return loop_ns(node) - before

    def costs(self, node, work):
        """The ratio that the same work may have in two runs: distances between processors and other load matter."""
        return [self.cost(node, work) for _ in range(2)]

    def grows(self, what, node, work):
        """work(n): its cost for MANY must not be quadratic relative to FEW."""
        work(FEW)  # whatever is made once
        few, many = self.cost(node, lambda: work(FEW)), self.cost(node, lambda: work(MANY))
        silence = metric(node, "tcad_loop_longest_turn_seconds")
        print(f"{what}: {few / 1e6:.1f} ms for {FEW}, {many / 1e6:.1f} ms for {MANY}; longest turn so far {silence * 1e3:.0f} ms")
        self.assertLess(many, 3 * MANY // FEW * few, f"{what}: its cost grows much faster than what was asked for")

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
        for seat, name in ((1, "client's seat"), (2, "daemon's seat")):
            self.grows(f"puts in one chain, {name}", node, lambda n: self.commit(client, [put] * n, seat=seat))
            self.grows(f"notifications, {name}", node, lambda n: self.commit(client, [wire.notify(0, 0)] * n, seat=seat))
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
        loop, worker = loop_ns(node), worker_ns(node)
        first = client.tag + 1
        for request in (long, wire.region_alloc(4096), long):
            client.send(request)
        for tag in range(first, first + 3):
            self.assertEqual(client.receive()[:2], (tag, wire.REGION_GRANTED))
        loop, worker = loop_ns(node) - loop, worker_ns(node) - worker
        print(f"2 requests of 48 MiB: {loop / 1e6:.1f} ms of the loop, {worker / 1e6:.1f} ms of the worker")
        self.assertLess(4 * loop, worker)
        gone = self.open(node)
        gone.send(long)
        gone.close()
        harness.until(lambda: metric(node, "tcad_user_bytes", kind="messages") == 0, "nothing of it is left")
        small = self.cluster(1, options={"limits.bytes_per_user": "32M"})[0]
        with self.fails("-EDQUOT", "a long request needs", "limits.bytes_per_user"):
            self.open(small).ask(long)

    def test_many_regions(self):
        node = self.node()
        client = self.open(node)
        regions = [client.alloc(4096) for _ in range(4000)]
        puts = [wire.put(region, handle, wire.contiguous(8), b"") for region, _, handle in regions]
        self.grows("puts of many regions", node, lambda n: self.commit(client, (puts * (n // len(puts) + 1))[:n], seat=2))

    def test_many_sessions(self):
        node = self.node()
        others = [self.open(node) for _ in range(1500)]
        client = self.open(node)
        self.grows("notifications among many sessions", node, lambda n: self.commit(client, [wire.notify(0, 0)] * n, seat=1))
        for other in others:
            other.close()

    def test_many_connections(self):
        """Accepting a connection costs the same, however many its user has."""
        node = self.cluster(1, options={"limits.sessions_per_user": "16384", "limits.sessions": "16384"})[0]

        def connect():
            client = self.connect(node)
            client.ask(wire.hello(admin=True))

        def batch():
            for _ in range(300):
                connect()

        batch()
        few = max(self.costs(node, batch))
        for _ in range(37):
            batch()
        many = min(self.costs(node, batch))
        print(f"300 connections: {few / 1e6:.1f} ms beside 300, {many / 1e6:.1f} ms beside 12000")
        self.assertLess(many, 2 * few, "it grows with the connections that are there")

    def publisher(self, node, names):
        """A session, the only one of its group, that has published this many names."""
        client = self.open(node)
        _, _, handle = client.alloc(4096)
        client.ask(wire.blob(wire.GROUP_JOIN, wire.blob(1, f"names{names}") + wire.number(2, 0) + wire.number(3, 1) +
                             wire.number(4, 10**10)))
        batch = 32  # requests in flight at a time
        for first in range(0, names, batch):
            for number in range(first, first + batch):
                client.send(wire.blob(wire.PUBLISH, wire.blob(1, f"name-{number}") + wire.blob(2, handle)))
            for _ in range(batch):
                kind = client.receive()[1]
                self.assertEqual(kind, wire.DONE)
        return client

    def test_published_names(self):
        """The first published name is found as quickly among many names as among few."""
        node = self.node()
        costs, look_up = [], wire.blob(wire.LOOKUP, wire.blob(1, "name-0"))
        for names in (1024, 16384):
            begin = loop_ns(node)
            client = self.publisher(node, names)
            published = loop_ns(node)
            costs.append(self.costs(node, lambda client=client: [client.ask(look_up) for _ in range(1500)]))
            worker = worker_ns(node)
            self.assertEqual([len(region["published"]) for region in node.regions()], [names])
            self.assertGreater(worker_ns(node), worker, "the list is packed by the worker")
            print(f"{names} names: {(published - begin) / 1e6:.1f} ms to publish, {costs[-1][0] / 1e6:.1f} ms to look one up 1500 times")
            client.close()
            harness.until(lambda: node.counts()[0] == 0, "it is gone")
        print(f"longest turn so far {metric(node, 'tcad_loop_longest_turn_seconds') * 1e3:.0f} ms")
        self.assertLess(min(costs[1]), 2 * max(costs[0]), "looking up grows with the number of names")

    def test_a_node_of_a_large_group_goes_down(self):
        """Each member on one node is notified of each member on the other, without a scan of all members for each."""
        costs = []
        for members in (40, 160):  # of each node
            cluster = self.cluster(2)
            clients = [self.open(cluster[rank % 2], group_size=2 * members) for rank in range(2 * members)]
            for rank, client in enumerate(clients):
                client.send(wire.blob(wire.GROUP_JOIN, wire.blob(1, "large") + wire.number(2, rank) + wire.number(3, 2 * members) +
                                      wire.number(4, 60 * 10**9)))
            for client in clients:
                self.assertEqual(client.answer()[0], wire.GROUP_MEMBERS)
            before = loop_ns(cluster[0])
            cluster[1].kill()
            harness.until(lambda cluster=cluster: cluster[0].state_of(cluster[1]) == "down", "it is down")
            costs.append(loop_ns(cluster[0]) - before)
            silence = metric(cluster[0], "tcad_loop_longest_turn_seconds")
            print(f"{members} members lose {members}: {costs[-1] / 1e6:.1f} ms; longest turn so far {silence * 1e3:.0f} ms")
            for client in clients:
                client.close()
        self.assertLess(costs[1], 3 * 4 * 4 * costs[0], "it grows faster than what there is to tell")

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
        slices, worker = metric(node, "tcad_loop_slices"), worker_ns(node)
        with Watcher(node) as watcher:
            _, body, _ = asker.ask(wire.admin("plan", plan))
        slices, worker = metric(node, "tcad_loop_slices") - slices, worker_ns(node) - worker
        print(f"{len(body[1][0]) >> 20} MiB about a plan: {slices:.0f} slices, {worker / 1e6:.0f} ms of the worker; "
              f"{watcher.answered} answers to others")
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

    def test_nodes_of_a_plan(self):
        cluster = self.cluster(2, options={"limits.bytes_per_user": "4G", "limits.bytes": "4G"})
        members = [self.open(node, group_size=2) for node in cluster.nodes]
        for rank, client in enumerate(members):
            client.send(wire.blob(wire.GROUP_JOIN, wire.blob(1, "two") + wire.number(2, rank) + wire.number(3, 2) +
                                  wire.number(4, 60 * 10**9)))
        for client in members:
            self.assertEqual(client.answer()[0], wire.GROUP_MEMBERS)
        asker = self.connect(cluster[0])
        asker.ask(wire.hello(admin=True))

        def listing(steps):
            """The cost of listing a plan whose second half goes to the other node."""
            _, body, _ = members[0].ask(wire.commit([wire.notify(0, 0)] * (steps // 2) + [wire.notify(1, 0)] * (steps // 2), seat=2))
            costs = self.costs(cluster[0], lambda: asker.ask(wire.admin("plans")))
            self.assertEqual([plan["nodes"] for plan in cluster[0].plans()], [[0, 1]])
            members[0].ask(wire.blob(wire.PLAN_RELEASE, wire.number(1, body.get(1, [0])[0])))
            return costs

        few, many = max(listing(FEW)), min(listing(MANY))
        print(f"a plan in a list: {few / 1e6:.1f} ms for {FEW} steps, {many / 1e6:.1f} ms for {MANY}")
        self.assertLess(many, 3 * MANY // FEW * few, "it grows much faster than the plan")

    def test_largest_layouts(self):
        node = self.node()
        client = self.open(node)
        region, _, handle = client.alloc(128 * MIB)

        def commit(blocks):
            end = 128 * (blocks - 1) + 8
            layout = wire.program([wire.op(wire.BLOCK, count=8, offset=128 * i) for i in range(blocks)], size=8 * blocks, blocks=blocks,
                                  upper=end, ub=end)
            self.commit(client, [wire.put(region, handle, layout, b"")], seat=2)
        self.grows("blocks of a layout", node, commit)
        loop, worker = loop_ns(node), worker_ns(node)
        commit(1 << 20)
        loop, worker = loop_ns(node) - loop, worker_ns(node) - worker
        print(f"a layout of a million operations: {loop / 1e6:.1f} ms of the loop, {worker / 1e6:.1f} ms of the worker")
        self.assertLess(loop, worker)

    def test_ends(self):
        """Sessions with thousands of plans end; pings of another client are answered meanwhile."""
        node = self.node()
        plan = wire.commit([wire.notify(0, 0)] * 8, seat=2)

        def end(plans):
            client = self.open(node)
            for _ in range(plans):
                client.ask(plan)
            before = loop_ns(node)
            client.close()
            harness.until(lambda: node.counts()[2] == 0, "its plans are gone")
            return loop_ns(node) - before

        end(500)
        with Watcher(node) as watcher:
            few, many = end(500), end(4000)
        print(f"{few / 1e6:.1f} ms to end 500 plans, {many / 1e6:.1f} ms to end 4000; {watcher.answered} answers meanwhile")


class Accounts(hostile.HostileCase):
    """What users make the daemon hold is limited."""

    STRANGER = 65534

    def test_a_user_at_its_limit(self):
        cluster = self.cluster(1, options={"limits.bytes_per_user": "128M", "limits.bytes": "192M"})
        node = cluster[0]
        held = []
        with self.fails("-EDQUOT", "a session needs", f"user {os.geteuid()} holds", "limits.bytes_per_user", str(128 * MIB), "sessions"):
            for _ in range(100):
                held.append(self.open(node, group_size=4096))
        self.assertEqual(len(held), 3)  # of 38 MiB
        small = self.open(node)
        with self.fails("-EDQUOT", "a plan needs", "limits.bytes_per_user", "close sessions"):
            for _ in range(100):
                small.ask(wire.commit([wire.notify(0, 0)] * 1000))
        self.assertGreater(metric(node, "tcad_user_bytes", uid=os.geteuid(), kind="plans"), 1000)
        if os.geteuid() == 0:
            self.assertEqual(self.stranger(cluster), "fine")
        for client in (*held, small):
            client.close()
        harness.until(lambda: metric(node, "tcad_user_bytes") == 0, "nothing is held for anybody")
        self.open(node, group_size=4096).close()

    def stranger(self, cluster):
        """Another user is not affected; there is also a limit for all users together."""
        os.chmod(cluster.directory, 0o711)
        os.chmod(cluster[0].directory, 0o711)
        here = os.path.dirname(os.path.abspath(__file__))
        text = f"import os, sys\nsys.path.insert(0, {here!r})\nimport wire\nos.setgroups([])\nos.setgid({self.STRANGER})\n" \
               f"os.setuid({self.STRANGER})\nclient = wire.Client({cluster[0].socket!r}).open(group_size=4096)\n" \
               f"client.ask(wire.commit([wire.notify(0, 0)] * 100))\n" \
               f"try:\n    wire.Client({cluster[0].socket!r}).open(group_size=4096)\n" \
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
