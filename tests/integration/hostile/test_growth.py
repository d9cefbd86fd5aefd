#!/usr/bin/env python3
"""The work of tcad grows linearly with the largest legal requests, and not at all with what others have. Told by counts (counted.py)."""

import os
import sys

import counted
import wire
import harness  # the path to it is set by hostile

MANY, FEW = 8192, 512  # steps: an eighth of the most that a plan can have, to be quicker, and a sixteenth of that
MIB = 1 << 20
WAVE, SUBMIT = 1024, 256  # starts that a session can have in flight, and submit to a channel at a time


class Growth(counted.CountedCase):
    def grows(self, what, node, work, budget):
        """work(n): as counted.grows_linearly() says, for FEW and MANY. budget: the most instructions of one of MANY, of the loop's
        thread and the workers: a half more than were counted on 27 November 2026 (GCC 12, x86-64). Compilers and variants of memcpy()
        account for some percent; what is done twice for each does not fit."""
        work(FEW)  # whatever is made once
        few, many = (self.cost(node, lambda count=count: work(count)) for count in (FEW, MANY))
        self.grows_linearly(what, few, many, MANY // FEW)
        each = (many["loop"] + many["worker"]) // MANY
        print(f"{what}: {each:,} instructions each, at most {budget:,}")
        self.assertLess(each, budget, f"{what}: each costs more")

    def commit(self, client, steps, **arguments):
        _, body, fds = client.ask(wire.commit(steps, **arguments))
        for fd in fds:
            os.close(fd)
        client.ask(wire.release(body.get(1, [0])[0]))
        client.events.clear()

    def test_steps(self):
        node = self.counted()[0]
        client = self.open(node)
        region, _, handle = client.alloc(MIB)
        put = wire.put(region, handle, wire.contiguous(8), b"")
        for seat, name, each_put, each_notify in ((1, "client's seat", 23400, 14700), (2, "daemon's seat", 25000, 13800)):
            self.grows(f"puts in one chain, {name}", node, lambda n, seat=seat: self.commit(client, [put] * n, seat=seat), each_put)
            self.grows(f"notifications, {name}", node, lambda n, seat=seat: self.commit(client, [wire.notify(0, 0)] * n, seat=seat),
                       each_notify)

    def test_other_node(self):
        """The loop chooses rails, and takes links, in slices."""
        cluster = self.counted(2, options={"rails.enable": "shm tcp", "control.request_timeout": "300s"})
        node = cluster[0]
        sender, receiver = (self.open(one) for one in cluster.nodes)
        region = sender.alloc(MIB)[0]
        handle = receiver.alloc(MIB)[2]
        put = wire.put(region, handle, wire.contiguous(8), b"")
        self.grows("puts to another node", node, lambda n: self.commit(sender, [put] * n, seat=2), 31200)
        node.take_counts()
        self.commit(sender, [put], seat=2)
        jobs = node.take_calls("slice")  # of plan_in_slices(): one for each job, then
        self.commit(sender, [put] * 4096, seat=2)
        slices = node.take_calls("slice")
        print(f"a put to another node: {jobs} slices, 4096: {slices}", file=sys.stderr)
        self.assertGreater(slices, 2 * jobs, "at a stretch")

    def test_many_regions(self):
        node = self.counted()[0]
        client = self.open(node)
        regions = [client.alloc(4096) for _ in range(1000)]
        puts = [wire.put(region, handle, wire.contiguous(8), b"") for region, _, handle in regions]
        self.grows("puts of many regions", node, lambda n: self.commit(client, (puts * (n // len(puts) + 1))[:n], seat=2), 24700)

    def test_largest_layouts(self):
        node = self.counted()[0]
        client = self.open(node)
        region, _, handle = client.alloc(128 * MIB)

        def commit(blocks):
            end = 128 * (blocks - 1) + 8
            layout = wire.program([wire.op(wire.BLOCK, count=8, offset=128 * i) for i in range(blocks)], size=8 * blocks, blocks=blocks,
                                  upper=end, ub=end)
            self.commit(client, [wire.put(region, handle, layout, b"")], seat=2)

        self.grows("blocks of a layout", node, commit, 1120)
        cost = self.cost(node, lambda: commit(1 << 18))
        print(f"a layout of {1 << 18} operations: {cost}")
        self.assertLess(cost["loop"], cost["worker"])

    def test_long_requests(self):
        """The loop leaves reading, unpacking and freeing them to others."""
        node = self.counted()[0]
        client = self.open(node)
        long = wire.blob(wire.REGION_ALLOC, wire.number(1, 4096) + b"".join(wire.blob(99, bytes(16)) for _ in range(8192)))
        cost = self.cost(node, lambda: client.ask(long))
        print(f"a request with 8192 unknown fields: {cost}")
        self.assertLess(4 * cost["loop"], cost["worker"])

    def test_nodes_of_a_plan(self):
        cluster = self.counted(2)
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
            asker.ask(wire.admin("plans"))  # what follows the commit is over
            cost = self.cost(cluster[0], lambda: asker.ask(wire.admin("plans")))
            self.assertEqual([plan["nodes"] for plan in cluster[0].plans()], [[0, 1]])
            members[0].ask(wire.release(body.get(1, [0])[0]))
            return cost

        self.grows_linearly("a plan in a list", listing(FEW), listing(MANY), MANY // FEW)

    def test_ends(self):
        """A session with thousands of plans ends."""
        node = self.counted()[0]
        plan = wire.commit([wire.notify(0, 0)] * 8, seat=2)

        def end(plans):
            client = self.open(node)
            for _ in range(plans):
                client.ask(plan)

            def close():
                client.close()
                harness.until(lambda: node.counts()[2] == 0, "its plans are gone")

            return self.cost(node, close)

        end(10)
        self.grows_linearly("plans of a session that ends", end(100), end(800), 8)


def patient_plans(node):
    """Under valgrind, on a busy machine, a daemon with many plans takes long to describe them."""
    return node.tcactl("--timeout", "50", "plans")["plans"]


class Beside(counted.CountedCase):
    """What something costs beside few and beside many others."""

    def test_sessions(self):
        node = self.counted()[0]
        client = self.open(node)
        commit = wire.commit([wire.notify(0, 0)] * 1000, seat=1)
        client.ask(commit)
        few = self.cost(node, lambda: client.ask(commit))
        for _ in range(500):
            self.open(node)
        self.constant("notifications beside 1 session and 501", few, self.cost(node, lambda: client.ask(commit)))

    def test_connections(self):
        node = self.counted(sessions_per_user="16384", sessions="16384")[0]

        def batch():
            for _ in range(100):
                self.connect(node).ask(wire.hello(admin=True))

        batch()
        few = self.cost(node, batch)
        for _ in range(15):  # each second that a batch takes, all connections are looked at once
            batch()
        many = min((self.cost(node, batch) for _ in range(2)), key=lambda cost: cost["loop"])  # tables grow in one of them at most
        self.constant("100 connections beside 100 and 1700", few, many)

    def test_waiting_starts(self):
        """What a start that waits for a notification costs the engine does not depend on how many others wait: for the same one, which
        they take in turn, or each for its own; notified all at once, or one after the other."""
        cluster = self.counted(options={"engine.spin": "0us", "engine.yield": "0us"})
        node = cluster[0]
        for what, slots in (("the same notification", 1), ("its own", WAVE)):
            waiter, teller = cluster.group([0, 0])
            waits = [waiter.plan(f"await 1 {i % slots} 1", seat="daemon") for i in range(WAVE)]
            each = [teller.plan(f"notify 0 {i}", seat="client") for i in range(slots)]

            def wave(width, tells):
                """The engine's instructions for each of so many starts."""
                def work():
                    for first in range(0, width, SUBMIT):
                        last = min(first + SUBMIT, width)
                        waiter.ask(f"starts {waits[first]} {waits[last - 1]}")
                        harness.until(lambda last=last: sum(plan["running"] for plan in patient_plans(node)) == last, "the engine has them")
                    for plan in tells:
                        teller.run(plan)
                    waiter.ask(f"waits {waits[0]} {waits[width - 1]} -2")
                return self.cost(node, work)["engine"] // width

            def together(width):
                return wave(width, [teller.plan(*(f"notify 0 {i % slots}" for i in range(width)), seat="client")])

            def one_by_one(width):
                return wave(width, [each[i % slots] for i in range(width)])

            for kind in (together, one_by_one):
                kind(1)
                few, many = kind(WAVE // 16), kind(WAVE)
                print(f"a start that waits for {what}, {kind.__name__}, of {WAVE // 16}: {few:,} instructions, of {WAVE}: {many:,}")
                # 16 times as much if each looks at all; how often the engine wakes differs from run to run, by a factor of 2.
                self.assertLess(many, 4 * few, f"a start that waits for {what} costs more among many")
            cluster.kill_actors([waiter, teller])

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
        node = self.counted()[0]
        costs, look_up = [], wire.blob(wire.LOOKUP, wire.blob(1, "name-0"))
        for names in (256, 2048):
            client = self.publisher(node, names)
            costs.append(self.cost(node, lambda client=client: [client.ask(look_up) for _ in range(200)]))
            listed = self.cost(node, lambda names=names: self.assertEqual([len(region["published"]) for region in node.regions()], [names]))
            self.assertGreater(listed["worker"], 100 * names, "the list is packed by the worker")
            client.close()
            harness.until(lambda: node.counts()[0] == 0, "it is gone")
        self.constant("looking up one name of 256 and of 2048", *costs)

    def test_a_node_of_a_large_group_goes_down(self):
        """Each member on one node is notified of each member on the other, without a scan of all members for each."""
        costs = []
        for members in (20, 80):  # of each node
            cluster = self.counted(2)
            clients = [self.open(cluster[rank % 2], group_size=2 * members) for rank in range(2 * members)]
            for rank, client in enumerate(clients):
                client.send(wire.blob(wire.GROUP_JOIN, wire.blob(1, "large") + wire.number(2, rank) + wire.number(3, 2 * members) +
                                      wire.number(4, 60 * 10**9)))
            for client in clients:
                self.assertEqual(client.answer()[0], wire.GROUP_MEMBERS)
            cluster[0].take_counts()
            cluster[1].kill()
            harness.until(lambda cluster=cluster: cluster[0].state_of(cluster[1]) == "down", "it is down")
            costs.append(cluster[0].take_counts())
            for client in clients:
                client.close()
        self.grows_linearly("20 members lose 20, 80 lose 80", *costs, times=4 * 4)


if __name__ == "__main__":
    harness.main()
