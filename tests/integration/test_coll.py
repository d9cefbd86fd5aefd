#!/usr/bin/env python3
"""Random collective operations between slow and fast ranks, on one node and several, on every rail and in every seat; the
death of a rank; and errors."""

import os
import signal

import boards
import harness
from ranks import DEADLINE_S, RANDOM, SEED, Ranks, any_places, several_each

ROUNDS, STARTS = 3, 5


class Coll(Ranks):
    group = "coll"

    def cluster(self, nodes=1, options=None, **arguments):
        """Between nodes, over tcp, as in a fresh installation."""
        return super().cluster(nodes, options={"rails.enable": "shm tcp", **(options or {})}, **arguments)

    def start(self, cluster, places, words, late=False, **environment):
        return super().start(cluster, places, words, late, TCA_TIMEOUT="50s", **environment)

    def coll(self, cluster, places, rounds=ROUNDS, victim=None, late=False, **environment):
        """Ranks of coll/coll.c, one per place, its node. All must exit with 0 and print nothing."""
        words = [harness.program("coll"), str(SEED), str(rounds), str(STARTS)] + ([str(victim)] if victim is not None else [])
        self.ranks(cluster, places, words, victim, late, **environment)

    def test_one_node(self):
        cluster = self.cluster()
        for ranks in (1, 3, 8):
            with self.subTest(ranks=ranks):
                self.coll(cluster, [0] * ranks)

    def test_one_node_by_its_daemon(self):
        cluster = self.cluster()
        for ranks in (2, 6):
            with self.subTest(ranks=ranks):
                self.coll(cluster, [0] * ranks, TCA_SEAT="daemon")

    def test_several_nodes(self):
        """Also with a rank that dies, between nodes that only one rail connects."""
        for rail, others in (("tcp", ({"TCA_SEAT": "daemon"}, {"THREAD": "1"})), ("ofi", ())):
            cluster = self.cluster(4, subclusters=2, options={"rails.enable": f"shm {rail}"})
            for places in ([0, 1], [0, 0, 1, 1, 2, 3]):
                with self.subTest(places=places, rail=rail):
                    self.coll(cluster, places)
            for environment in ({}, *others):
                with self.subTest(rail=rail):
                    self.one_dies(cluster, several_each(4, 8), **environment)

    def one_dies(self, cluster, places, **environment):
        victim = RANDOM.randrange(len(places))
        with self.subTest(places=places, victim=victim, environment=environment, seed=SEED):
            self.coll(cluster, places, rounds=1, victim=victim, **environment)

    def test_sixteen_nodes(self):
        cluster = self.cluster(16, subclusters=4, options={"rails.enable": RANDOM.choice(("shm tcp", "shm tcp ofi"))})
        for places in (list(range(16)), *(any_places() for _ in range(harness.rounds(1)))):
            with self.subTest(places=places, seed=SEED):
                self.coll(cluster, places, late=True)
        self.one_dies(cluster, several_each(16, 24), TCA_SEAT=RANDOM.choice(("any", "daemon")))

    def test_every_root(self):
        cluster = self.cluster(4, subclusters=2)
        for places, seat in (([0, 1, 2, 3, 3, 2, 1], "any"), ([0, 0, 1, 2], "daemon")):
            with self.subTest(places=places, seat=seat):
                self.ranks(cluster, places, [harness.program("coll-roots")], TCA_SEAT=seat)

    def test_by_thread(self):
        cluster = self.cluster(2)
        for places in ([0] * 4, [0, 1, 0, 1]):
            with self.subTest(places=places):
                self.coll(cluster, places, THREAD="1")

    def test_attached_memory(self):
        """When an operation is complete, its data is in attached memory, too."""
        cluster = self.cluster(4, subclusters=2)
        for places, seat in (([0] * 3, "client"), ([0] * 2, "daemon"), ([0, 1], "any"), ([0, 1, 1], "daemon"), ([0, 1, 2, 3, 1], "any")):
            with self.subTest(places=places, seat=seat):
                self.coll(cluster, places, 3 * ROUNDS, ATTACH="1", TCA_SEAT=seat)

    def test_boards(self):
        cluster = boards.Ring(4, {"rails.calibration": "off"})
        self.addCleanup(self.take_down, cluster)
        self.coll(cluster.up(), [0, 1, 2, 3], rounds=2, TCA_RAIL="peach2")
        self.one_dies(cluster, [0, 1, 2, 3, 0, 1, 2, 3], PREFER="peach2")

    def bits(self, cluster, places, turn, **environment):
        """What the ranks of coll/bits.c print."""
        processes = self.start(cluster, places, [harness.program("coll-bits"), str(SEED + turn)], **environment)
        said = [process.communicate(timeout=DEADLINE_S)[0] for process in processes]
        self.assertEqual([process.returncode for process in processes], [0] * len(places), said)
        self.released(cluster)
        return said

    def test_reductions_give_the_same_bits(self):
        """In every start, and in every run, whichever rank is late."""
        cluster = self.cluster(2)
        for places, environment in (([0] * 5, {}), ([0] * 4, {"TCA_SEAT": "daemon"}), ([0, 1, 0, 1, 1], {})):
            with self.subTest(places=places, environment=environment, seed=SEED):
                first, second = (self.bits(cluster, places, turn, **environment) for turn in range(2))
                self.assertEqual(first, second)
                self.assertEqual(len(first[0].splitlines()), 10)

    def test_neighbours(self):
        cluster = self.cluster(2)
        for places, seat in (([0] * 4, "any"), ([0] * 3, "daemon"), ([0, 1, 0, 1], "any")):
            with self.subTest(places=places, seat=seat):
                self.ranks(cluster, places, [harness.program("coll-neighbours"), str(SEED), "5", "4"], TCA_SEAT=seat)

    def test_made_again(self):
        """Operations that are freed and made again with other memory, also of nested groups, with errors among them."""
        for nodes, places, seats in ((1, [0] * 2, ("any", "daemon")), (1, [0] * 5, ("any", "daemon")), (2, [0, 1, 0], ("any", "daemon")),
                                     (3, [0, 1, 2, 0, 1, 2, 2, 1], ("any",)), (2, [0] * 8 + [1] * 8, ("any",))):
            cluster = self.cluster(nodes)
            for seat in seats:
                with self.subTest(places=places, seat=seat, seed=SEED):
                    self.ranks(cluster, places, [harness.program("coll-kept"), str(SEED), str(harness.rounds(40))], TCA_SEAT=seat)
            with self.subTest(places=places, seed=SEED):
                self.ranks(cluster, places, [harness.program("coll-kept"), str(SEED), "3", "die"], len(places) - 1)

    def test_kept_ones_make_room(self):
        cluster = self.cluster(1, options={"limits.plans_per_session": "80"})
        self.ranks(cluster, [0] * 3, [harness.program("coll-full"), "80"])

    def test_root_is_ahead(self):
        cluster = self.cluster(2)
        for places, environment in (([0] * 4, {}), ([0] * 3, {"TCA_SEAT": "daemon"}), ([0, 1, 0, 1], {})):
            with self.subTest(places=places, environment=environment):
                self.ranks(cluster, places, [harness.program("coll-ahead")], **environment)

    def test_root_is_ahead_and_dies(self):
        cluster = self.cluster(2)
        for places in ([0] * 4, [0, 1, 0, 1]):
            with self.subTest(places=places):
                self.ranks(cluster, places, [harness.program("coll-ahead"), "die"], 1)

    def explained(self, node, name, places):
        """tcactl plan explain shows the choice of the algorithm, and tcactl simulate predicts the same."""
        plan = next(plan for plan in node.plans() if plan["name"].startswith(name))
        coll = node.tcactl("plan", "explain", plan["id"])["collective"]
        operation, _, algorithm = name.partition(", ")
        self.assertEqual((coll["operation"], coll["bytes"], coll["ranks"], coll["root"], coll["requested"]),
                         (operation, 160000, len(places), int(operation == "broadcast"), bool(algorithm)))
        self.assertEqual(plan["name"], f"{operation}, {coll['algorithm']}")
        times = {candidate["algorithm"]: candidate["predicted_ns"] for candidate in coll["candidates"]}
        self.assertEqual([candidate["algorithm"] for candidate in coll["candidates"] if candidate["chosen"]], [coll["algorithm"]])
        self.assertEqual(set(times), {algorithm} if algorithm else {"direct", "ring", "doubling", "hierarchical"})
        self.assertEqual(times[coll["algorithm"]], min(times.values()))
        if max(places) > 0:  # the ranks of a node do not follow one another
            self.assertIsNone(coll["per_node"])
            return
        self.assertEqual((coll["per_node"], coll["per_subcluster"]), (len(places), None))
        for candidate in coll["candidates"]:
            segment = ["--segment", str(candidate["segment_bytes"])] if candidate["segment_bytes"] else []
            simulated = node.tcactl("simulate", operation, "160000", "--ranks", str(len(places)), "--ppn", str(len(places)), "--root",
                                    str(coll["root"]), "--algorithm", candidate["algorithm"], *segment)
            self.assertEqual(simulated["predicted_ns"], candidate["predicted_ns"])
        text = node.tcactl_raw("plan", "explain", plan["id"]).stdout
        self.assertIn(f"{operation} of 156 KiB", text)
        self.assertIn(f"all ranks: tcactl simulate {operation} 160000 --ranks {len(places)} --ppn {len(places)} ", text)

    def test_all_but_one_are_stopped(self):
        """In the daemons' seat, data moves through ranks whose processes are stopped."""
        for places in ([0] * 4, [0, 1, 0, 1]):
            cluster = self.cluster(1 + max(places))
            processes = self.start(cluster, places, [harness.program("coll-session")])
            for name in ("broadcast, chain", "allreduce, ring", "reduce, chain", "allreduce, direct", "allreduce, "):
                self.assertEqual(processes[0].stdout.readline(), "complete\n")
                self.explained(cluster[0], name, places)
                for rank in processes[1:]:
                    harness.until(lambda rank=rank: self.is_stopped(rank), "the others have stopped")
                    rank.send_signal(signal.SIGCONT)
                processes[0].stdin.write("go on\n")
                processes[0].stdin.flush()
            self.finish(processes, f"{places}, stopped")
            self.released(cluster)

    def measured(self, nodes, rail, measured):
        """A cluster whose nodes have measured this rail: latency and a KiB in ns."""
        cluster = harness.Cluster(nodes, options={"rails.enable": "shm tcp"})
        self.addCleanup(self.take_down, cluster)
        for node, (latency_ns, kib_ns) in zip(cluster.nodes, measured):
            os.mkdir(node.directory + "/state")
            with open(node.directory + "/state/calibration", "w", encoding="ascii") as file:
                file.write(harness.costs({f"{rail} daemon": (latency_ns, kib_ns / 1024)}))
        return cluster.up()

    def test_costs_are_measured(self):
        """All ranks choose by the greatest costs that any node has measured: node 3 the slowest start, node 5 the slowest copy."""
        rail = next(rail["rail"] for rail in self.cluster()[0].tcactl("status")["rails"]
                    if rail["driver"] == "tcp")
        for slowest_ns, kib_ns, algorithm in ((800000, 300, "binomial"), (3000, 30000, "chain")):
            with self.subTest(slowest_ns=slowest_ns):
                cluster = self.measured(8, rail, [(slowest_ns if node == 3 else 2000, kib_ns if node == 5 else 100) for node in range(8)])
                half = str(slowest_ns // 2)
                self.ranks(cluster, list(range(8)), [harness.program("coll-costs"), half, half, str(kib_ns), algorithm])
                own = cluster[5].tcactl("status")["calibration"]
                self.assertEqual(own["state"], "measured")
                number = {"seat": "daemon", "latency_ns": 1000, "overhead_ns": 1000, "small_kib_ns": kib_ns, "large_kib_ns": kib_ns}
                self.assertEqual(own["costs"], [{"to": "subcluster", **number}, {"to": "cluster", **number}])

    def test_all_choose_the_same(self):
        cluster = self.cluster(2)
        for places in ([0, 0, 0], [0, 1, 1]):
            with self.subTest(places=places):
                self.ranks(cluster, places, [harness.program("coll-alike")])

    def test_all_or_none(self):
        """Ranks give something wrong, or something else than the others: all fail alike, or none does."""
        cluster = self.cluster(4, subclusters=2)
        for places in ([0], [0, 0, 0], [0, 1, 2], several_each(4, 16)):
            with self.subTest(places=places, seed=SEED):
                self.ranks(cluster, places, [harness.program("coll-agree"), str(SEED), str(harness.rounds(24))])

    def test_cluster_files_differ(self):
        """Each node's file divides the cluster in another way."""
        cluster = harness.Cluster(4, options={"rails.enable": "shm tcp"})
        self.addCleanup(self.take_down, cluster)
        with open(cluster.file, encoding="ascii") as file:
            lines = file.read().splitlines()
        for node in cluster.nodes:
            own = f"{node.directory}/cluster.conf"
            with open(own, "w", encoding="ascii") as file:
                for number, line in enumerate(lines, -1):
                    file.write(line.replace("subcluster=s0", f"subcluster=s{int(number > node.number)}") + "\n")
            node.options = {**node.options, "node.cluster_file": own}
            node.configure()
        cluster.up()
        for places in ([0, 1, 2, 3], [3, 0, 2, 1, 1, 0]):
            with self.subTest(places=places):
                self.ranks(cluster, places, [harness.program("coll-roots")])
                self.coll(cluster, places, 2 * ROUNDS)

    def test_errors(self):
        for places in ([0, 0], [0, 1]):
            with self.subTest(places=places):
                self.ranks(self.cluster(1 + max(places)), places, [harness.program("coll-errors")])

    def test_one_is_killed(self):
        cluster = self.cluster()
        for environment in ({}, {"TCA_SEAT": "daemon"}, {"THREAD": "1"}):
            self.one_dies(cluster, [0] * 5, **environment)


if __name__ == "__main__":
    harness.main()
