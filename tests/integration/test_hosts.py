#!/usr/bin/env python3
"""Names and addresses of nodes: look-ups that take long, several addresses, addresses that others cannot reach."""

import subprocess
import unittest

import harness
import hosts
from processes import program, until


@unittest.skipUnless(harness.own_network() and hosts.may_make_hosts(), "no networks of our own")
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
        # A look-up is two queries, IPv4 and IPv6.
        self.assertEqual(server.names, ["nowhere1.example"] * 6)


if __name__ == "__main__":
    unittest.main()
