#!/usr/bin/env python3
"""tcactl why: the answer names what is wrong between two nodes, and the remedy."""

import json
import secrets

import harness


class Why(harness.Case):
    def why(self, node, other, code):
        found = node.tcactl_raw("--json", "why", f"node{other.number}")
        self.assertEqual(found.returncode, code, found)
        return json.loads(found.stdout)

    def test_nothing(self):
        cluster = self.cluster(2, fresh=True)
        why = self.why(cluster[0], cluster[1], 0)
        self.assertEqual((why["state"], why["key"], why["cluster_file"], why["problem"]), ("up", "same", "same", ""))
        self.assertEqual(why["protocol"]["here"], why["protocol"]["there"])
        self.assertEqual([(rail["rail"].split(":")[0], rail["state"]) for rail in why["rails"]], [("tcp", "up")])
        self.assertIn("never calibrated", why["remedy"])
        self.assertTrue(self.why(cluster[1], cluster[0], 0)["called"], "node 0 has connected")
        self.assertIn("this is the node itself", cluster[0].tcactl_raw("why", "node0").stderr)
        self.assertIn("has no such node", cluster[0].tcactl_raw("why", "nobody").stderr)

    def test_nobody_listens(self):
        cluster = self.cluster(2)
        cluster[1].kill()
        why = self.why(cluster[0], cluster[1], 1)
        self.assertEqual(why["addresses"], [{"address": harness.ADDRESS, "result": "Connection refused"}])
        self.assertEqual((why["state"], why["rails"][0]["state"], why["protocol"]["there"]), ("down", "unknown", None))
        self.assertIn("Start tcad on node1", why["remedy"])
        harness.until(lambda: self.why(cluster[0], cluster[1], 1)["next_s"], "it says when it tries next")
        cluster[1].restart()
        harness.until(lambda: cluster[0].ping(cluster[1]), "it is back")
        self.assertEqual(self.why(cluster[0], cluster[1], 0)["problem"], "")

    def test_a_node_that_has_ended(self):
        cluster = self.cluster(2)
        self.assertTrue(cluster[0].ping(cluster[1]))
        self.assertIsNone(cluster[1].end())
        harness.until(lambda: cluster[0].state_of(cluster[1]) == "down", "its end is noticed")
        self.assertIn("Start tcad on node1", self.why(cluster[0], cluster[1], 1)["remedy"])

    def test_a_stopped_daemon(self):
        cluster = self.cluster(2, options={"control.request_timeout": "1s"})
        cluster[1].pause()
        why = self.why(cluster[0], cluster[1], 1)
        self.assertEqual(why["addresses"][0]["result"], "no answer")  # the kernel accepts for it
        self.assertIn("node1", why["remedy"])
        cluster[1].resume()

    def test_another_key(self):
        cluster = self.cluster(2)
        cluster[1].kill()
        with open(cluster.key, "w", encoding="ascii") as file:
            file.write(secrets.token_hex(32) + "\n")
        cluster[1].restart()
        why = self.why(cluster[0], cluster[1], 1)
        self.assertEqual((why["key"], why["addresses"][0]["result"]), ("different", "another key"))
        self.assertIn("the cluster keys differ", why["problem"])
        self.assertIn("Copy the same key file", why["remedy"])

    def test_another_cluster_file(self):
        cluster = self.cluster(2)
        self.assertTrue(cluster[0].ping(cluster[1]))
        with open(cluster.file, "a", encoding="ascii") as file:
            file.write(f"late id=2 address={harness.ADDRESS}:{next(harness.PORTS)}\n")
        cluster[0].tcactl("reload")
        why = self.why(cluster[0], cluster[1], 5)
        self.assertEqual((why["state"], why["cluster_file"]), ("up", "different"))
        self.assertIn("Give all nodes the same cluster file", why["remedy"])
        # one that does not even have the node
        with open(cluster.file, encoding="ascii") as file:
            lines = [line for line in file if not line.startswith("node0")]
        with open(cluster.file, "w", encoding="ascii") as file:
            file.writelines(lines)
        cluster[1].restart()
        harness.until(lambda: "has no node with id 0" in self.why(cluster[0], cluster[1], 1)["problem"], "it has refused node 0")
        why = self.why(cluster[0], cluster[1], 1)
        self.assertIn("the same cluster file", why["remedy"])

    def test_no_rail_in_common(self):
        cluster = self.cluster(2)
        cluster[1].kill()
        cluster[1].options["rails.enable"] = "shm"
        cluster[1].configure()
        cluster[1].restart()
        why = self.why(cluster[0], cluster[1], 5)
        self.assertEqual([rail["state"] for rail in why["rails"]], ["absent"])
        self.assertIn("no rail leads to node1", why["problem"])
        self.assertIn("rails.enable", why["remedy"])


if __name__ == "__main__":
    harness.main()
