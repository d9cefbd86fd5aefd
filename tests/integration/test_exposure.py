#!/usr/bin/env python3
"""The ofi rail over TCP has no protection: it is off unless the configuration permits it, tcad warns, and the rail listens only
at the configured address."""

import os
import re
import resource
import shutil
import socket
import struct
import subprocess
import time
import unittest

import harness
from harness import Stream, until


def listening(process):
    """Where a process listens, as "address:port"."""
    inodes = set()
    for link in os.scandir(f"/proc/{process.pid}/fd"):
        try:
            target = os.readlink(link.path)
        except FileNotFoundError:
            continue
        if target.startswith("socket:["):
            inodes.add(target[8:-1])
    found = set()
    with open("/proc/self/net/tcp", encoding="ascii") as table:
        for fields in (line.split() for line in list(table)[1:]):
            if fields[3] == "0A" and fields[9] in inodes:  # LISTEN
                host, port = fields[1].split(":")
                found.add(f"{socket.inet_ntoa(struct.pack('=I', int(host, 16)))}:{int(port, 16)}")
    return found


def rail(node):
    return next(rail for rail in node.tcactl("status")["rails"] if rail["driver"] == "ofi")


def connects(source, target, seconds=1.0):
    """A connection from an address to "address:port", or None without a reply: the filter drops packets instead of refusing
    them."""
    connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    connection.settimeout(seconds)
    connection.bind((source, 0))
    try:
        host, port = target.rsplit(":", 1)
        connection.connect((host, int(port)))
    except TimeoutError:
        connection.close()
        return None
    return connection


def connects_as(uid, source, target, seconds=harness.DEADLINE_S):
    """Whether a user's process can connect: True, or False when it is refused or gets no reply."""
    child = os.fork()
    if child == 0:
        try:
            os.setuid(uid)
            with connects(source, target, seconds) as connection:
                os._exit(0 if connection else 1)
        except (OSError, TypeError, AttributeError):
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


class Exposure(harness.Case):
    RAILS = "shm ofi"

    def configured(self, options, **of_node):
        """A cluster of two; of_node: further options of each node, by number."""
        options = {"rails.enable": "shm ofi", **options}
        cluster = harness.Cluster(2, options=options)
        self.addCleanup(self.take_down, cluster)
        for node in cluster.nodes:
            node.options = {**options, **of_node.get(f"node{node.number}", {})}
            node.configure()
        return cluster.up()

    def far(self, cluster, **wish):
        sender, receiver = cluster.group([0, 1])
        return Stream(sender, receiver, **wish)

    def test_off_by_default(self):
        cluster = self.configured({"rails.ofi_unprotected": "no"})
        for node in cluster.nodes:
            self.assertEqual((rail(node)["state"], rail(node)["address"]), ("absent", ""))
            self.assertEqual(len(listening(node.process)), 1, "more than the control port is open")
            warning, = node.tcactl("status")["warnings"]
            for text in (warning, node.tcactl_raw("status").stdout, node.log_text()):
                self.assertRegex(text, r"(?s)rail ofi is off.*rails\.ofi_unprotected.*set ofi_unprotected = yes.*tcad\.conf.*tcad\(8\)")
        for wish in ({}, {"rail": "ofi"}):
            with self.refused("-ENETDOWN", "node 1", "rails.ofi_unprotected", "ofi_unprotected = yes", cluster[0].directory,
                              "tcad(8)"):
                sender, receiver = cluster.group([0, 1], name=f"job{len(wish)}")
                Stream(sender, receiver, **wish)

    def test_the_setting_of_each_rail(self):
        """Warnings name the key that permits the rail, in its own section if it has one."""
        node = self.cluster(1, fresh=True, options={"rails.ofi_unprotected": "yes", "rail ofi:open.driver": "ofi", "rail ofi:open.plane": "open",
                                        "rail ofi:open.unprotected": "yes", "rail ofi:shut.driver": "ofi",
                                        "rail ofi:shut.plane": "shut"})[0]
        status = node.tcactl("status")
        own, = (text for text in status["warnings"] if "rail ofi:open " in text)
        short, = (text for text in status["warnings"] if "rail ofi:open " not in text)
        self.assertIn("([rail ofi:open] unprotected = yes)", own)
        self.assertIn("(rails.ofi_unprotected = yes)", short)
        shut, = (rail for rail in status["rails"] if rail["rail"] == "ofi:shut")
        self.assertEqual((shut["state"], shut["address"]), ("absent", ""))
        self.assertRegex(node.log_text(), r"rail ofi:shut is off: .*\(\[rail ofi:shut\] unprotected\)")

    def test_off_at_the_other_node_only(self):
        cluster = self.configured({}, node1={"rails.ofi_unprotected": "no"})
        with self.refused("-ENETDOWN", "rails.ofi_unprotected", "ofi_unprotected = yes", "tcad(8)"):
            self.far(cluster)

    def test_a_node_alone_is_not_warned(self):
        node = self.cluster(1, fresh=True, options={"rails.ofi_unprotected": "no"})[0]
        self.assertEqual(node.tcactl("status")["warnings"], [])
        self.assertNotIn("warning", node.log_text())

    def test_on_with_a_warning(self):
        node = self.cluster(2, fresh=True)[0]
        warning, = node.tcactl("status")["warnings"]
        self.assertTrue(rail(node)["unprotected"])
        for text in (warning, node.tcactl_raw("status").stdout, node.log_text()):
            self.assertRegex(text, r"unprotected.*" + rail(node)["address"].replace(".", r"\.") + r".*crash.*tcad\(8\)")

    def test_address_and_port(self):
        """The port is the configured one; a control port on all interfaces opens the rail's port only at the cluster's address."""
        ports = [next(harness.PORTS) for _ in range(2)]
        cluster = self.configured({}, node0={"rails.ofi_port": ports[0], "control.listen": f"0.0.0.0:{next(harness.PORTS)}"},
                                  node1={"rails.ofi_port": ports[1]})
        for node, port in zip(cluster.nodes, ports):
            self.assertEqual(rail(node)["address"], f"{harness.ADDRESS}:{port}")
            self.assertIn(f"{harness.ADDRESS}:{port}", listening(node.process))
            self.assertIn(f"at {harness.ADDRESS}:{port}", node.tcactl_raw("status").stdout)
            self.assertEqual([text for text in listening(node.process) if text.startswith("0.0.0.0") and text.endswith(str(port))], [])

    def test_puts_between_chosen_ports(self):
        ports = [next(harness.PORTS) for _ in range(2)]
        cluster = self.configured({}, node0={"rails.ofi_port": ports[0]}, node1={"rails.ofi_port": ports[1]})
        for shape in ("65536", "64x32x128"):
            stream = self.far(cluster, rail="ofi", shape=shape, target_shape=shape)
            self.assertEqual(stream.run(3), 3)
            cluster.kill_actors([stream.sender, stream.receiver])

    def test_only_hosts_of_nodes_may_connect(self):
        cluster = self.cluster(2)
        until(lambda: cluster[0].ping(cluster[1]), "they are connected")
        address = rail(cluster[0])["address"]
        with connects(harness.ADDRESS, address, harness.DEADLINE_S) as connection:
            self.assertIsNotNone(connection, "the other node's host")
        self.assertIsNone(connects("127.0.0.1", address), "somebody else's host")
        self.assertIn("from the address of a node", cluster[0].tcactl("status")["warnings"][0])
        stream = self.far(cluster, rail="ofi")
        self.assertEqual(stream.run(3), 3)
        cluster[1].kill()
        until(lambda: cluster[0].state_of(cluster[1]) == "down", "it is gone")
        self.assertIsNone(connects(harness.ADDRESS, address), "the host of a node that is gone")

    def test_the_own_host_once_it_is_needed(self):
        node = self.cluster(1)[0]
        address = rail(node)["address"]
        host = address.rsplit(":", 1)[0]
        self.assertIsNone(connects(host, address))
        stream = Stream(*node.cluster.group([0, 0]), rail="ofi")
        self.assertEqual(stream.run(1), 1)
        with connects(host, address, harness.DEADLINE_S) as connection:
            self.assertIsNotNone(connection)

    def test_a_flood_leaves_descriptors_for_clients(self):
        cluster = self.cluster(2)
        node, limit = cluster[0], 256
        node.kill()
        node.start(limit)
        node.wait_ready()
        until(lambda: node.ping(cluster[1]), "they are connected")
        address = rail(node)["address"]
        flood = []
        self.addCleanup(lambda: [connection.close() for connection in flood])

        def shut_by_flood():
            while len(flood) < 4 * limit and (connection := connects(harness.ADDRESS, address, 0.1)):
                flood.append(connection)
            return any("descriptors are in use" in text for text in node.tcactl("status")["warnings"])

        until(shut_by_flood, "the door is shut")
        time.sleep(3)  # tcad has looked again
        self.assertNotIn("are open again", node.log_text())
        self.assertIsNone(connects(harness.ADDRESS, address))
        for number in range(4):
            actor = cluster.actor()
            actor.ask(f"open more{number} 0 1 -2")
            actor.alloc(1 << 20)
        self.assertIn("accept no new connections", node.log_text())
        self.assertEqual(node.metric("tcad_descriptors_limit"), limit)

    @unittest.skipUnless(shutil.which("nft"), "needs nftables")
    def test_the_firewall_rule_of_the_manual(self):
        """The rule in tcad(8) lets daemons connect and keeps local users out."""
        ports = [next(harness.PORTS) for _ in range(2)]
        with open(os.path.join(os.environ["TCA_TEST_SOURCE"], "tools/man/tcad.8.scd"), encoding="utf-8") as manual:
            rule = re.search(r"^table inet tcad \{.*?^\}$", manual.read(), re.MULTILINE | re.DOTALL).group(0)
        for old, new in (("dport 7081", f"dport {{ {ports[0]}, {ports[1]} }}"), ("10.0.0.0/24", f"{harness.ADDRESS}/32"),
                         ("skuid != tcad", "skuid != root")):
            self.assertEqual(rule.count(old), 2 if old == "dport 7081" else 1)
            rule = rule.replace(old, new)
        if not self.has_own_network:
            self.skipTest("needs a network of its own")
        cluster = self.configured({}, node0={"rails.ofi_port": ports[0]}, node1={"rails.ofi_port": ports[1]})
        until(lambda: cluster[0].ping(cluster[1]), "they are connected")
        address = f"{harness.ADDRESS}:{ports[0]}"
        self.assertTrue(connects_as(0, harness.ADDRESS, address))
        self.assertTrue(connects_as(65534, harness.ADDRESS, address), "anybody, without the rule")
        subprocess.run(["nft", "-f", "-"], input=rule, text=True, check=True)
        self.addCleanup(subprocess.run, ["nft", "delete", "table", "inet", "tcad"], check=True)
        self.assertTrue(connects_as(0, harness.ADDRESS, address))
        self.assertFalse(connects_as(65534, harness.ADDRESS, address, 1), "another user")
        self.assertFalse(connects_as(0, "127.0.0.1", address, 1), "another host")
        for shape in ("8", "1048576", "64x32x128"):
            stream = self.far(cluster, rail="ofi", shape=shape, target_shape=shape)
            self.assertEqual(stream.run(3), 3)
            cluster.kill_actors([stream.sender, stream.receiver])

    def test_a_port_that_is_taken(self):
        cluster = self.cluster(2)
        port = rail(cluster[0])["address"].rsplit(":", 1)[1]
        cluster[1].options = {"rails.enable": "shm ofi", "rails.ofi_port": port}
        cluster[1].configure()
        cluster[1].kill()
        cluster[1].start()
        self.assertEqual(cluster[1].process.wait(harness.DEADLINE_S), 1)
        self.assertRegex(cluster[1].log_text(), rf"rails\.ofi_port = {port}\): .*set another port")
        cluster[1].process = None


if __name__ == "__main__":
    harness.main()
