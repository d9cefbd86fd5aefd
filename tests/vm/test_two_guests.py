#!/usr/bin/env python3
"""Two virtual machines as two nodes, with a soft-RoCE device each, whose packets cross a cable of their own: what arrives over the
rail hca, and what happens when a daemon is killed or the cables are pulled. Started by two-guests."""

import json
import unittest

import guests
import harness
import ranks
from actors import Failed, Stream
from harness import until

RAIL = "hca:rxe0:1"
SHAPES = ["8", "4096", "65536", "700000", "256x8x24", "2000x40x48", "100x6000x6100"]
HIMENO = "/opt/tcad-vm/himeno"


class Two(ranks.Ranks):
    group = "two"

    def pair(self, **options):
        cluster = guests.Guests({"rails.enable": "shm hca tcp", "rails.return_after": "200ms", **options})
        self.addCleanup(self.take_down, cluster)
        return cluster.up()

    def test_every_shape(self):
        cluster = self.pair()
        for places in ([0, 1], [1, 0]):
            pair = cluster.group(places, name=f"from{places[0]}")
            for shape in SHAPES:
                with self.subTest(shape=shape, sender=places[0]):
                    stream = Stream(*pair, rail="hca", shape=shape, region_bytes=2 << 20)
                    self.assertEqual(stream.run(5), 5)
                    self.assertEqual(stream.sender.receipt(stream.plan)["name"], RAIL)

    def test_random_layouts(self):
        words = [harness.program("mesh"), "3", "4", str(ranks.SEED), "daemon"]
        self.ranks(self.pair(), [0, 0, 1, 1], words, TCA_RAIL="hca")

    def himeno(self, cluster, split, places):
        words = [HIMENO, "--size", "XS", "--split", split, "--iterations", "7", "--json"]
        processes = self.start(cluster, places, words, TCA_RAIL="hca")
        said = [process.communicate(ranks.DEADLINE_S)[0] for process in processes]
        self.assertEqual([process.returncode for process in processes], [0] * len(places), said)
        return json.loads(said[0])

    def test_himeno(self):
        """Its result has the same bits as that of one process alone."""
        cluster = self.pair()
        alone = self.himeno(cluster, "1x1x1", [0])["gosa_hex"]
        for split, places in (("2x1x1", [0, 1]), ("1x2x1", [1, 0])):
            result = self.himeno(cluster, split, places)
            self.assertEqual(result["gosa_hex"], alone)
            between = {face["rail"] for face in result["faces"] if face["node"] != places[face["rank"]]}
            self.assertEqual(between, {"hca"}, result["faces"])

    def fails(self, stream):
        """Its rail has gone, or the node: whichever is noticed first."""
        with self.assertRaises(Failed) as failed:
            stream.sender.answer()
        self.assertIn(failed.exception.name, ("-ENETDOWN", "-EHOSTDOWN"))
        return failed.exception.name

    def test_a_daemon_is_killed(self):
        cluster = self.pair()
        for victim in (1, 0):
            pid = cluster[1 - victim].process.pid
            stream = Stream(*cluster.group([1 - victim, victim], name=f"job{victim}"), rail="hca", shape="700000")
            stream.begin()
            until(lambda: any(plan["starts"] > 3 for plan in cluster[1 - victim].plans()), "data flows")
            cluster[victim].kill()
            self.fails(stream)
            cluster.kill_actors([stream.sender, stream.receiver])
            cluster[victim].restart()
            again = Stream(*cluster.group([1 - victim, victim], name=f"again{victim}"), rail="hca")
            self.assertEqual(again.run(3), 3)
            cluster.kill_actors([again.sender, again.receiver])
            self.assertEqual(cluster[1 - victim].process.pid, pid)
            self.assertIsNone(cluster[1 - victim].process.poll())

    def test_a_node_is_cut_off(self):
        cluster = self.pair(**{"control.heartbeat_timeout": "10s"})
        stream = Stream(*cluster.group([0, 1], name="before"), rail="hca", shape="700000")
        stream.begin()
        until(lambda: any(plan["starts"] > 3 for plan in cluster[0].plans()), "data flows")
        with guests.pulled(1, "control", "fabric"):
            self.fails(stream)
            until(lambda: cluster[0].state_of(cluster[1]) == "down", "the node is down")
        until(lambda: cluster[0].ping(cluster[1]), "it answers again")
        cluster.kill_actors([stream.sender, stream.receiver])
        again = Stream(*cluster.group([0, 1], name="again"), rail="hca")
        self.assertEqual(again.run(3), 3)

    def test_the_fabric_is_cut_off(self):
        """The daemons still reach each other. Only guest 1 sees that its port is down: guest 0's cable goes to a switch, so to speak."""
        cluster = self.pair()
        for number, (places, shape) in enumerate((places, shape) for places in ([0, 1], [1, 0]) for shape in ("700000", "2000x40x48")):
            with self.subTest(shape=shape, sender=places[0]):
                stream = Stream(*cluster.group(places, name=f"cut{number}"), rail="hca", ack_rail="tcp", shape=shape)
                stream.begin()
                until(lambda: any(plan["starts"] > 3 for plan in cluster[places[0]].plans()), "data flows")
                with guests.pulled(1, "fabric"):
                    self.assertEqual(self.fails(stream), "-ENETDOWN")
                    for node in cluster:
                        self.assertTrue(node.ping(cluster[1 - node.number]))
                cluster.kill_actors([stream.sender, stream.receiver])
                again = Stream(*cluster.group(places, name=f"again{number}"), rail="hca", shape=shape)
                self.assertEqual(again.run(3), 3)
                cluster.kill_actors([again.sender, again.receiver])


if __name__ == "__main__":
    unittest.main(verbosity=2)
