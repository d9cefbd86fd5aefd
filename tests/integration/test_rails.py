#!/usr/bin/env python3
"""Several rails of one driver: plans put on each by name; one is cut off, another takes over, and the plan moves back."""

import contextlib

import harness
from actors import Failed
from connections import cut_off
from harness import until

SIZE = 1 << 16  # larger than puts that complete once they are copied: a lost rail breaks no plan


class Rails(harness.Case):
    def names(self, node, driver):
        return sorted(rail["rail"] for rail in node.tcactl("status")["rails"] if rail["driver"] == driver and rail["state"] == "up")

    def put(self, pair, rail, slot, **wishes):
        sender, receiver = pair
        source, target = sender.alloc(SIZE), receiver.alloc(SIZE)
        sender.ask(f"fill {source} 0 {SIZE} 7")
        plan = sender.plan(f"put {source} 0 {SIZE} {receiver.handle(target)} 0 {SIZE}", f"notify 1 {slot}", rail=rail, **wishes)
        return plan, target, slot

    def start(self, pair, put):
        """The name of the rail that it used."""
        sender, receiver = pair
        plan, target, slot = put
        sender.run(plan, -1)
        receiver.ask(f"notified_wait 0 {slot} -1")
        receiver.ask(f"check {target} 0 {SIZE} 7")
        receiver.ask(f"set {target} 0 {SIZE} 0")
        return sender.receipt(plan)["name"]

    def check(self, driver, options):
        cluster = self.cluster(2, options={"rails.return_after": "200ms", **options})
        nodes = cluster.nodes
        one, other = self.names(nodes[0], driver)
        self.assertEqual(self.names(nodes[1], driver), [one, other])
        pair = cluster.group([0, 1])
        puts = {name: self.put(pair, name, slot) for slot, name in enumerate((one, other))}
        for name, put in puts.items():
            self.assertEqual(self.start(pair, put), name)
        any_of_them = self.start(pair, self.put(pair, driver, 2))
        self.assertIn(any_of_them, (one, other))
        wish = self.put(pair, other, 3, prefer=True)
        self.assertEqual(self.start(pair, wish), other)
        rows = {plan["rail"] for plan in nodes[0].plans()}
        self.assertEqual(rows, {one, other})

        with cut_off(nodes, other):
            def lost():
                with contextlib.suppress(Failed):
                    pair[0].run(wish[0], 60000)
                return f"rail {other} to node 1 was lost" in nodes[0].log_text()

            until(lost, "the rail is lost")
            with self.assertRaisesRegex(Failed, f"rail {other} was lost, and no other rail that the plan may use leads to the same nodes"):  # it is demanded
                self.start(pair, puts[other])
            self.assertEqual(self.start(pair, puts[one]), one)
            self.drain(pair[1], 3)
            self.assertEqual(self.start(pair, wish), one)
            links = {link["rail"]: link for link in nodes[0].tcactl("topology")["links"] if link["to"] == 1}
            self.assertEqual(links[one]["state"], "up")
        until(lambda: self.start(pair, wish) == other, "it has come back")
        moved = nodes[0].tcactl("stats")["families"]
        values = {family["name"]: family["samples"] for family in moved}
        self.assertEqual(values["tcad_plans_returned"][0]["value"], 1 + (any_of_them == other))
        self.assertEqual({sample["labels"]["rail"] for sample in values["tcad_plan_starts"]}, {one, other})
        self.assertEqual({sample["labels"]["driver"] for sample in values["tcad_plan_starts"]}, {driver})

    @staticmethod
    def drain(receiver, slot):
        """Notifications of starts that have failed here and arrived there."""
        while receiver.ask(f"count 0 {slot}") != ["0"]:
            receiver.ask(f"notified_wait 0 {slot} -1")

    def test_tcp(self):
        self.check("tcp", {"rails.enable": "shm tcp", "rail tcp:b.driver": "tcp", "rail tcp:b.plane": "b",
                           "rail tcp:b.security": "plain"})

    def test_ofi(self):
        self.check("ofi", {"rails.enable": "shm ofi", "rail ofi:rxm.driver": "ofi", "rail ofi:rxm.provider": "tcp;ofi_rxm",
                           "rail ofi:rxm.unprotected": "yes"})

    def test_planes(self):
        """Rails with different planes do not reach each other, whatever their names."""
        cluster = harness.Cluster(2, options={"rails.enable": "shm", "rail tcp:x.driver": "tcp"})
        self.addCleanup(self.take_down, cluster)
        cluster[0].options = {**cluster[0].options, "rail tcp:x.plane": "a", "rail tcp:y.driver": "tcp", "rail tcp:y.plane": "b"}
        cluster[1].options = {**cluster[1].options, "rail tcp:x.plane": "b"}
        for node in cluster.nodes:
            node.configure()
        cluster.up()
        pair = cluster.group([0, 1])
        self.assertEqual(self.start(pair, self.put(pair, "any", 0)), "tcp:y")
        with self.refused("-ENETDOWN"):
            self.put(pair, "tcp:x", 1)
        with self.refused("-EINVAL", "rail tcp:z: this node has only shm, tcp:x, tcp:y"):
            self.put(pair, "tcp:z", 1)

    def test_one_plane(self):
        """A conflict that the configuration cannot show: two names of one provider. The daemon does not start."""
        cluster = harness.Cluster(1, options={"rails.enable": "shm ofi", "rail ofi:net.driver": "ofi", "rail ofi:net.provider": "net",
                                              "rail ofi:net.unprotected": "yes"})
        self.addCleanup(self.take_down, cluster)
        with self.assertRaisesRegex(RuntimeError, "rails ofi:net:lo and ofi:net are both on plane ofi:net: set plane"):
            cluster.up()
        cluster[0].kill()


if __name__ == "__main__":
    harness.main()
