#!/usr/bin/env python3
"""The connections of the rails ofi and tcp between two nodes are cut again and again while programs put in both directions: every
start arrives, once, with its data; the rail is not given up, and no job ends.

TCA_TEST_ROUNDS=20 repeats it twenty times as often.
"""

import random
import socket
import time

import harness
from connections import connections_of, rail_port, reset
from harness import Stream

CUTS = harness.rounds(8)
SHAPES = ["24", "300000", "256x8x24", "2000x40x48", "250x6000x6100"]


class Cuts(harness.Case):
    def setUp(self):
        super().setUp()
        self.random = random.Random(1)

    def cut(self, node, ports):
        """Cuts some of its connections to and from these ports. Returns how many."""
        cuts = 0
        for each in connections_of(node, ports):
            try:
                if self.random.randrange(2):
                    reset(each)
                else:
                    each.shutdown(socket.SHUT_RDWR)
                cuts += 1
            except OSError:
                pass  # it has ended meanwhile
        return cuts

    def check_under_traffic(self, rail, **options):
        cluster = self.cluster(2, **options)
        nodes = cluster.nodes
        ports = {rail_port(node, rail) for node in nodes}
        streams = [Stream(*cluster.group(places, name=f"{shape}from{places[0]}"), rail=rail, seat="daemon", shape=shape, region_bytes=2 << 20)
                   for places in ([0, 1], [1, 0]) for shape in SHAPES]
        for stream in streams:
            stream.begin()
        for _ in range(CUTS):
            time.sleep(self.random.uniform(0.05, 0.4))
            harness.until(lambda: self.cut(self.random.choice(nodes), ports) > 0, "there is a connection to cut")
        for stream in streams:
            with self.subTest(shape=stream.shape, sender=stream.sender.node.number):
                self.assertGreater(stream.finish(), 0)
                stream.run(3)
                self.assertEqual(stream.sender.receipt(stream.plan)["rail"], rail)
                self.assertEqual(stream.receiver.ask(f"count 0 {stream.slot}"), ["0"])
        for node in nodes:
            self.assertNotIn("was lost", node.log_text())
            self.assertEqual(node.state_of(nodes[1 - node.number]), "up")

    def test_ofi(self):
        self.check_under_traffic("ofi", options={"rails.enable": "shm ofi"})

    def test_tcp(self):
        self.check_under_traffic("tcp", options={"rails.enable": "shm tcp"})

    def test_tcp_plain(self):
        self.check_under_traffic("tcp", options={"rails.enable": "shm tcp", "rails.tcp_security": "plain"})


if __name__ == "__main__":
    harness.main()
