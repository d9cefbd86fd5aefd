#!/usr/bin/env python3
"""Starts with random parts, compared with sequential copies: on one node and several, on every rail and in every seat; what the
library and the daemon refuse; a rail that is lost between two starts."""

import pathlib
import tempfile

import boards
import harness
from ranks import SEED, Ranks

STARTS = harness.rounds(12)


class Parts(Ranks):
    group = "parts"

    def parts(self, cluster, places, **environment):
        """The nodes then count as many bytes more as the ranks have put, whatever the committed lengths."""
        before = sum(map(self.put_bytes, cluster.nodes))
        with tempfile.TemporaryDirectory() as scratch:
            totals = pathlib.Path(scratch) / "totals"
            self.ranks(cluster, places, [harness.program("parts"), str(SEED), str(STARTS), str(totals)], **environment)
            moved = sum(map(int, totals.read_text(encoding="ascii").split()))
        self.assertEqual(sum(map(self.put_bytes, cluster.nodes)) - before, moved)

    @staticmethod
    def put_bytes(node):
        """Of all rails and seats, also of plans that were released."""
        return sum(sample["value"] for family in node.tcactl("stats")["families"] if family["name"] == "tcad_plan_put_bytes"
                   for sample in family["samples"])

    def test_one_node(self):
        cluster = self.cluster()
        for ranks, seat in ((1, "any"), (2, "client"), (2, "daemon"), (3, "any")):
            with self.subTest(ranks=ranks, seat=seat):
                self.parts(cluster, [0] * ranks, TCA_SEAT=seat)

    def test_two_nodes(self):
        cluster = self.cluster(2, options={"rails.enable": "shm tcp ofi"})
        for rail in ("tcp", "ofi"):
            with self.subTest(rail=rail):
                self.parts(cluster, [0, 1], TCA_RAIL=rail)
                self.parts(cluster, [0, 0], TCA_RAIL=rail)

    def test_both_seats(self):
        self.parts(self.cluster(2), [0, 0, 1])

    def test_boards(self):
        cluster = boards.Ring(2, {"rails.calibration": "off"})
        self.addCleanup(self.take_down, cluster)
        self.parts(cluster.up(), [0, 1], TCA_RAIL="peach2")

    @staticmethod
    def plan(node):
        """A rank's plan with parts on that node."""
        return next((plan for plan in node.plans() if plan["chains"] == 2), {"rail": "", "starts": 0})

    def test_a_rail_comes_back(self):
        """The plans move to another rail between two starts; the parts of a start that has to wait for that are not lost, and
        what was moved is counted once, on either rail."""
        cluster = boards.Ring(2, {"rails.calibration": "off", "rails.return_after": "200ms"})
        self.addCleanup(self.take_down, cluster)
        cluster.up()
        for turn in range(harness.rounds(2)):
            cluster.hand("unplug", 0, "E", "W")
            for node in cluster.nodes:
                cluster.wait_cut_off(node, {1 - node.number})
            before = [self.put_bytes(node) for node in cluster.nodes]
            processes = self.start(cluster, [0, 1], [harness.program("parts"), str(SEED + turn), "1000000000"])
            both = [lambda node=node: self.plan(node) for node in cluster.nodes]
            harness.until(lambda: all(plan()["starts"] > 5 and plan()["rail"].startswith("ofi") for plan in both), "they run on ofi")
            cluster.hand("plug", 0, "E", "W")
            harness.until(lambda: all(plan()["rail"] == "peach2:0" for plan in both), "they have moved")
            moved = [plan()["starts"] for plan in both]
            harness.until(lambda: all(plan()["starts"] > then + 10 for plan, then in zip(both, moved)), "they run on")
            self.assertEqual([process.poll() for process in processes], [None, None])
            for process in processes:
                harness.stop(process.pid)
            harness.until(lambda: all(map(self.is_stopped, processes)), "they have stopped")
            for node, then in zip(cluster.nodes, before):
                harness.until(lambda node=node, then=then: self.put_bytes(node) - then == node.tcactl("plan", self.plan(node)["id"])["moved_bytes"],
                              "all that was moved is counted once")
            for process in processes:
                process.kill()
            self.assertEqual([process.communicate()[0] for process in processes], ["", ""])
            self.released(cluster)

    def test_errors(self):
        for places, seat in (([0, 0], "client"), ([0, 0], "daemon"), ([0, 1], "any")):
            with self.subTest(places=places, seat=seat):
                self.ranks(self.cluster(1 + max(places)), places, [harness.program("parts-errors")], TCA_SEAT=seat)

    def test_explained(self):
        cluster = self.cluster()
        processes = self.start(cluster, [0], [harness.program("parts"), str(SEED), "1000000000"])
        node = cluster[0]
        harness.until(lambda: any(plan["starts"] for plan in node.plans()), "the plan was started")
        plan = next(plan["id"] for plan in node.plans() if plan["chains"] == 2)
        steps = [step for chain in node.tcactl("plan", plan)["chains"] for step in chain["steps"]]
        self.assertEqual([step["parts"] for step in steps], [True, True, False, True, True, True, True, True])
        self.assertEqual(node.tcactl_raw("plan", plan).stdout.count("each start chooses the part"), 7)
        harness.until(lambda: node.tcactl("plan", plan)["starts"] >= 20, "it was started many times")
        harness.stop(processes[0].pid)
        harness.until(lambda: self.is_stopped(processes[0]), "it has stopped")
        doc = node.tcactl("plan", plan)
        self.assertTrue(doc["parts"])
        self.assertLess(0, doc["moved_bytes"])
        self.assertLess(doc["moved_bytes"], doc["starts"] * doc["bytes"])
        self.assertEqual(node.tcactl("sessions")["sessions"][0]["bytes"], doc["moved_bytes"])
        self.assertRegex(node.tcactl_raw("plan", plan).stdout, r"MiB per start at most, \d+ starts, [0-9.]+ MiB moved\n")
        processes[0].kill()
        processes[0].communicate()
        self.released(cluster)

    def test_hostile(self):
        """The daemon reads parts once and checks them itself."""
        cluster = self.cluster(1, options={"rails.enable": "shm tcp"})
        for rail in ("shm", "tcp"):
            with self.subTest(rail=rail):
                self.ranks(cluster, [0], [harness.program("parts-hostile")], TCA_RAIL=rail)


if __name__ == "__main__":
    harness.main()
