#!/usr/bin/env python3
"""The rail tcp: puts of every shape, in clear and encrypted; no connection without the secret; freed memory and the ends of
processes are reported as over the other rails."""

import os
import socket
import time

import harness
from connections import connections_of, rail_port
from harness import Stream, until

SHAPES = ["8", "4096", "65536", "700000", "256x8x24", "2000x40x48", "100x6000x6100"]


class Tcp(harness.Case):
    def pair(self, **options):
        return self.cluster(2, options={"rails.enable": "shm tcp", **{f"rails.{key}": value for key, value in options.items()}})

    def rail(self, node):
        return next(rail for rail in node.tcactl("status")["rails"] if rail["driver"] == "tcp")

    def rejected(self, node):
        families = {family["name"]: family for family in node.tcactl("stats")["families"]}
        return next(sample["value"] for sample in families["tcad_rail_forged"]["samples"] if sample["labels"]["rail"].startswith("tcp"))

    def test_every_shape(self):
        for security, said in (("tls", "TLS 1.3"), ("plain", "in clear")):
            cluster = self.pair(tcp_security=security)
            self.assertIn(said, self.rail(cluster[0])["detail"])
            for shape in SHAPES:
                for places in ([0, 1], [1, 0]):
                    with self.subTest(security=security, shape=shape, sender=places[0]):
                        stream = Stream(*cluster.group(places, name=f"{shape}-{places[0]}"), rail="tcp", shape=shape, region_bytes=2 << 20)
                        self.assertEqual(stream.run(5), 5)
                        receipt = stream.sender.receipt(stream.plan)
                        self.assertEqual((receipt["rail"], receipt["encryption"]), ("tcp", {"tls": "tls", "plain": "none"}[security]))
                        cluster.kill_actors([stream.sender, stream.receiver])

    def test_it_is_taken_where_ofi_is_off(self):
        """It needs no rails.ofi_unprotected, and tcad does not warn."""
        cluster = self.cluster(2, options={"rails.enable": "shm tcp ofi", "rails.ofi_unprotected": "no"})
        stream = Stream(*cluster.group([0, 1]), shape="4096")
        self.assertEqual(stream.run(1), 1)
        self.assertEqual(stream.sender.receipt(stream.plan)["rail"], "tcp")

    def encryption(self, node, other):
        """What tcactl nodes says, in its document and in its table."""
        listed = [row["encryption"] for row in node.tcactl("nodes")["nodes"] if row["id"] == other]
        return listed[0], node.tcactl_raw("nodes").stdout.splitlines()[1 + other].split()

    def test_each_receiver_decides(self):
        """About its address, its port, and whether data that comes to it is encrypted: receipts and tcactl nodes tell."""
        ports = [next(harness.PORTS) for _ in range(2)]
        cluster = harness.Cluster(2, options={"rails.enable": "shm tcp"})
        self.addCleanup(self.take_down, cluster)
        for node, port, security in zip(cluster.nodes, ports, ("plain", "tls")):
            node.options = {"rails.enable": "shm tcp", "rails.tcp_port": port, "rails.tcp_security": security}
            node.configure()
        cluster.up()
        for node, port in zip(cluster.nodes, ports):
            self.assertEqual(self.rail(node)["address"], f"{harness.ADDRESS}:{port}")
        stream = Stream(*cluster.group([0, 1]), rail="tcp", seat="daemon", ack_rail="tcp", ack_seat="daemon")
        self.assertEqual(stream.run(3), 3)
        said = stream.sender.receipt(stream.plan)["encryption"], stream.receiver.receipt(stream.ack)["encryption"]
        self.assertEqual(said, ("tls", "none"))
        for node, word in enumerate(said):
            listed, row = self.encryption(cluster[node], 1 - node)
            self.assertIn({"rail": "tcp:lo", "seat": "daemon", "encryption": word, "connections": None}, listed)
            self.assertIn(word, row)
        self.assertEqual(self.encryption(cluster[0], 0)[0], [])

    def test_strangers(self):
        """Connections without the secret are dropped, and have no effect: garbage, silence, and more connections than are kept."""
        for security in ("plain", "tls"):
            cluster = self.pair(tcp_security=security)
            stream = Stream(*cluster.group([0, 1], name=security), rail="tcp", shape="65536")
            self.assertEqual(stream.run(3), 3)
            address = (harness.ADDRESS, rail_port(cluster[1], "tcp"))
            before = cluster[1].fds()
            crowd = []
            for number in range(300):
                stranger = socket.create_connection(address, harness.DEADLINE_S)
                if number % 3:
                    stranger.send(os.urandom(200) if number % 3 == 1 else bytes(128))
                crowd.append(stranger)
            self.assertEqual(stream.run(20), 20)
            for stranger in crowd:
                stranger.settimeout(harness.DEADLINE_S)
                try:
                    while stranger.recv(4096):
                        pass
                except ConnectionError:
                    pass
                stranger.close()
            until(lambda: cluster[1].fds() <= before, "their descriptors are closed")
            self.assertEqual(stream.run(3), 3)
            self.assertRegex("\n".join(cluster[1].tcactl("status")["warnings"]), "rail tcp:lo: [0-9]+ ")

    def test_what_is_rejected_is_counted(self):
        cluster = self.pair(tcp_security="plain")
        before = self.rejected(cluster[1]), self.rejected(cluster[0])
        with socket.create_connection((harness.ADDRESS, rail_port(cluster[1], "tcp")), harness.DEADLINE_S) as stranger:
            stranger.send(bytes(4096))
            until(lambda: self.rejected(cluster[1]) == before[0] + 1, "it is counted")
        self.assertEqual(self.rejected(cluster[0]), before[1])

    def test_freed_memory(self):
        cluster = self.pair()
        stream = Stream(*cluster.group([0, 1]), rail="tcp", shape="1000000", region_bytes=1 << 20)
        self.assertEqual(stream.run(3), 3)
        stream.receiver.ask(f"free {stream.target}")
        with self.refused("-ESTALE"):
            until(lambda: not stream.sender.ask(f"start {stream.plan}") or not stream.sender.ask(f"wait {stream.plan} -2"), "it fails")

    def test_a_receiver_or_its_daemon_is_killed(self):
        cluster = self.pair()
        for number in range(5):
            stream = Stream(*cluster.group([0, 1], name=f"job{number}"), rail="tcp", shape="700000", region_bytes=1 << 20)
            stream.begin()
            time.sleep(0.05)
            stream.receiver.kill()
            with self.refused("-EOWNERDEAD"):
                stream.sender.answer()
            cluster.kill_actors([stream.sender])
        stream = Stream(*cluster.group([0, 1], name="last"), rail="tcp", shape="700000", region_bytes=1 << 20)
        stream.begin()
        cluster[1].kill()
        with self.refused("-EHOSTDOWN"):
            stream.sender.answer()
        until(lambda: not list(connections_of(cluster[0], {rail_port(cluster[0], "tcp")})), "its connections are closed")
        cluster[1].start()
        cluster[1].wait_ready()
        again = Stream(*cluster.group([0, 1], name="again"), rail="tcp")
        self.assertEqual(again.run(3), 3)


if __name__ == "__main__":
    harness.main()
