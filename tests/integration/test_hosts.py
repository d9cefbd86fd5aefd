#!/usr/bin/env python3
"""Names and addresses of nodes: look-ups that take long, several addresses, addresses that others cannot reach."""

import json
import subprocess
import unittest

import harness
import hosts
from processes import program, until


MAY = harness.own_network() and hosts.may_make_hosts()


@unittest.skipUnless(MAY, "no networks of our own")
class LookUps(hosts.Case):
    """A name server that does not answer, or says no."""

    UNKNOWN = range(1, 7)

    def start(self, answers, unknown):
        server = hosts.NameServer(answers)
        self.addCleanup(server.end)
        addresses = [harness.Cluster.address(0), *(f"nowhere{number}.example:7373" for number in unknown)]
        cluster = self.hosts(addresses, [[] for _ in addresses], {"rails.enable": "shm tcp"})
        cluster[0].start()
        cluster[0].wait_ready()
        for node in cluster.nodes[1:]:
            node.process = None
        return server, cluster[0], cluster

    def test_no_answer_holds_up_nothing_else(self):
        server, node, cluster = self.start(False, self.UNKNOWN)
        pings = [node.popen([program("tcactl"), "-s", node.socket, "-t", "60", "ping", f"node{number}"],
                            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for number in self.UNKNOWN]
        until(lambda: len(set(server.names)) == len(self.UNKNOWN), "all names are looked up at the same time")
        actor = cluster.actor()
        actor.ask("open - 0 1 -2")
        plan, _, _ = actor.put_plan(actor, "10000x8x24i", region_bytes=1 << 18, seat="daemon")
        actor.run(plan)
        node.tcactl("status")
        self.assertIn("waits for other nodes", node.tcactl_raw("-t", "0.3", "ping", "node1").stderr)
        self.assertEqual([ping.poll() for ping in pings], [None] * len(pings), "nobody waits for the name server any more")
        for ping in pings:
            ping.kill()
            ping.wait()

    def test_names_that_do_not_exist_are_not_asked_for_all_the_time(self):
        server, node, _ = self.start(True, [1])
        until(lambda: "looked up again in 4 s" in node.tcactl_raw("ping", "node1").stderr, "the third look-up")
        self.assertEqual(set(server.names), {"nowhere1.example"})
        self.assertIn(len(server.names), (3, 6), "a look-up is a query for IPv4, and one for IPv6 if the machine has that")
        why = json.loads(node.tcactl_raw("--json", "why", "node1").stdout)
        self.assertEqual((why["state"], why["host"]["name"], why["addresses"]), ("down", "nowhere1.example", []))
        self.assertGreater(why["host"]["next_s"], 0)
        self.assertIn("nowhere1.example does not resolve on this node", why["problem"])
        self.assertIn("getent hosts nowhere1.example", why["remedy"])


@unittest.skipUnless(MAY, "no networks of our own")
class Addresses(hosts.Case):
    """Two hosts, whose files of names lead to addresses that do not exist, or that others cannot reach."""

    def start(self, names, interfaces=(("10.0.0.1/24",), ("10.0.0.2/24",)), **options):
        cluster = self.hosts(["node0:7373", "node1:7373"], names, {"rails.enable": "shm tcp", **options}, interfaces=interfaces)
        return cluster.up()

    def put_both_ways(self, cluster, when=""):
        for name, places in ("there", (0, 1)), ("back", (1, 0)):
            sender, receiver = cluster.group(places, name=f"{name}{when}@node0")
            plan, _, target = sender.put_plan(receiver, "64", rail="tcp")
            sender.run(plan)

    def test_own_name_is_loopback(self):
        """Debian's line in /etc/hosts."""
        cluster = self.start([["127.0.1.1 node0", "10.0.0.2 node1"], ["10.0.0.1 node0", "127.0.1.1 node1"]])
        for number, node in enumerate(cluster.nodes):
            self.assertTrue(node.ping(cluster[1 - number]))
            listens = node.listens()
            self.assertEqual([at for at in listens if not at.startswith(f"10.0.0.{number + 1}:")], [], listens)
            self.assertIn(f"node{number} is 127.0.1.1 on this machine", node.log_text())
        self.put_both_ways(cluster)

    def test_own_name_is_loopback_and_nobody_known(self):
        cluster = self.hosts(["node0:7373", "node1:7373"], [["127.0.1.1 node0", "10.9.9.9 node1"], []], {"rails.enable": "shm"},
                             interfaces=[["10.0.0.1/24"]])
        cluster[0].start()
        self.assertNotEqual(cluster[0].process.wait(harness.DEADLINE_S), 0)
        self.assertIn("set control.listen", cluster[0].log_text())
        cluster[0].process = None

    def test_first_address_is_wrong(self):
        both = [["10.0.0.1/24", "fd00::1/64"], ["10.0.0.2/24", "fd00::2/64"]]
        lines = ["fd00::99 node0", "10.0.0.1 node0", "10.0.0.99 node1", "fd00::2 node1"]
        cluster = self.start([lines, lines], both)
        self.assertTrue(cluster[0].ping(cluster[1]))
        why = cluster[0].tcactl("why", "node1")
        found = {address["address"]: address["result"] for address in why["addresses"]}
        self.assertEqual(found["fd00::2"], "connected")
        self.assertIn(found["10.0.0.99"], ("no answer", "No route to host", "not tried"))
        cluster[1].restart()
        self.assertTrue(cluster[1].ping(cluster[0]))
        self.assertIn("fd00::99 port 7373: ", cluster[1].tcactl_raw("why", "node0").stdout)

    def test_another_host_answers_at_the_first(self):
        """As the bridges that container software makes, whose address all hosts have."""
        lines = [["10.0.0.1 node0", "172.17.0.1 node1", "10.0.0.2 node1"], ["10.0.0.1 node0", "10.0.0.2 node1"]]
        cluster = self.start(lines, [["10.0.0.1/24", "172.17.0.1/16"], ["10.0.0.2/24"]], **{"control.listen": "0.0.0.0:7373"})
        self.assertTrue(cluster[0].ping(cluster[1]))

    def test_each_address_of_the_rail(self):
        """It listens at all addresses of the name or interface and announces them, which are tried in turn: the first leads nowhere, at
        the second another one listens, or nobody. Processes connect in the same way."""
        both = [["10.0.0.1/24", "10.7.0.1/24"], ["10.8.0.2/24", "10.7.0.2/24", "10.0.0.2/24", "fd00::2/64"]]
        lines = ["10.0.0.1 node0", "10.0.0.2 node1"]
        for where in "eth0", "rail":  # the name leads to what the interface has
            with self.subTest(where=where):
                names = [[*lines, "10.0.0.1 rail"], [*lines, "10.8.0.2 rail", "10.7.0.2 rail", "10.0.0.2 rail", "10.9.9.9 rail"]]
                cluster = self.start(names, both, **{"rails.tcp_address": where, "rails.tcp_port": 7444})
                listens = [at for at in cluster[1].listens() if at.endswith(":7444")]
                wanted = ["10.8.0.2:7444", "10.7.0.2:7444", "10.0.0.2:7444", *(["[fd00::2]:7444"] if where == "eth0" else [])]
                self.assertEqual(sorted(listens), sorted(wanted))
                rail = next(rail for rail in cluster[1].tcactl("status")["rails"] if rail["driver"] == "tcp")
                self.assertEqual(sorted(rail["address"].split(", ")), sorted(wanted))
                self.put_both_ways(cluster)
                for seat in "daemon", "client":
                    sender, receiver = cluster.group((0, 1), name=f"{seat}@node0")
                    plan, _, _ = sender.put_plan(receiver, "64", rail="tcp", seat=seat)
                    sender.run(plan)
                # 10.8 has no route; at 10.7 the host itself answers, from now on
                cluster[0].run_there("ip", "address", "add", "10.7.0.2/32", "dev", "lo")
                cluster[1].restart()
                self.assertTrue(cluster[0].ping(cluster[1]))
                self.put_both_ways(cluster, "-again")


if __name__ == "__main__":
    unittest.main()
