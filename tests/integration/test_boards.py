#!/usr/bin/env python3
"""PEACH2 boards, cabled as a ring, under daemons and clients: cables are pulled, boards killed. Traffic that can go the other
way round continues unchanged; other traffic moves to another rail, or fails with the reason."""

import os
import signal
import time

import harness
from boards import Boards, Ring
from harness import Stream, until


class OtherWay(Boards):
    def streams(self, cluster, pairs):
        """Endless streams between ranks, one rank per node, over the boards alone."""
        actors = [cluster.group([a, b], name=f"job{a}{b}") for a, b in pairs]
        streams = [Stream(sender, receiver, rail="peach2", shape="100x40x100", target_shape="4000") for sender, receiver in actors]
        for stream in streams:
            stream.begin()
        return streams

    def finish(self, streams):
        for stream in streams:
            self.assertGreater(stream.finish(), 0)
            self.assertEqual(stream.sender.receipt(stream.plan)["rail"], "peach2")

    def test_cables(self):
        """Cables are pulled and plugged one after the other while all ranks send: nothing is lost or duplicated, and tcactl
        shows the cables."""
        cluster = self.ring(4)
        streams = self.streams(cluster, [(0, 1), (1, 3), (2, 0), (3, 2)])
        for number in (0, 1, 2, 3):
            for hand, port in ((number, "E"), ((number + 1) % 4, "W")):
                cluster.hand("unplug", hand, port)
                for node in cluster.nodes:
                    cluster.wait_cables(node, {(number, "E")})
                    self.assertEqual(cluster.cut_off(node), set())
                cluster.hand("plug", hand, port)
                for node in cluster.nodes:
                    cluster.wait_cables(node, set())
        self.finish(streams)

    def test_receipt(self):
        """The receipt of a start whose cable is pulled while it runs shows retries, and the length of the detour."""
        cluster = self.ring(3)
        sender, receiver = cluster.group([0, 1])
        plan, target = self.plan(sender, receiver, 1, rail="peach2", shape="8388608")
        short, short_target = self.plan(sender, receiver, 1, rail="peach2", slot=1)

        def crossed(cables):
            self.assertEqual(self.start(sender, short)["hops"], cables)
            self.arrived(receiver, 0, short_target, slot=1)

        def pulled():
            sender.ask(f"start {plan}")
            cluster.hand("unplug", 0, "E")
            sender.ask(f"wait {plan} -1")
            self.arrived(receiver, 0, target, "8388608")
            cluster.wait_cables(cluster[0], {(0, "E")})
            crossed(2)
            cluster.hand("plug", 0, "E")
            cluster.wait_cables(cluster[0], set())
            crossed(1)
            return sender.receipt(plan)["retries"] > 0
        crossed(1)
        until(pulled, "a pulled cable makes a retry")
        self.assertEqual(sender.receipt(plan)["rail"], "peach2")

    def test_board(self):
        """A board dies: others bypass it; when it is back soon, so are the streams to its node."""
        cluster = self.ring(4)
        past, to = self.streams(cluster, [(1, 3), (0, 2)])
        cluster.kill_board(2)
        cluster.start_board(2)
        for node in cluster.nodes:
            cluster.wait_cables(node, set())
        cluster.kill_board(0)
        cluster.start_board(0)
        for node in cluster.nodes:
            cluster.wait_cables(node, set())
        self.finish([past, to])


class CutOff(Boards):
    def test_next_rail(self):
        """Plans to a node that is cut off move to the next rail; a plan that demands the boards fails."""
        cluster = self.ring(3)
        sender, receiver = cluster.group([0, 1])
        idle, idle_target = self.plan(sender, receiver, 1, slot=0)
        busy, busy_target = self.plan(sender, receiver, 1, slot=1)
        asked, _ = self.plan(sender, receiver, 1, rail="peach2", slot=2)
        for plan in (idle, busy):
            self.assertEqual(self.start(sender, plan)["rail"], "peach2")
        self.arrived(receiver, 0, idle_target)
        self.arrived(receiver, 0, busy_target, slot=1)

        cluster.hand("unplug", 1, "E", "W")
        cluster.wait_cut_off(cluster[0], {1})
        cluster.wait_cut_off(cluster[1], {0, 2})
        # A start that runs when the link is given up fails; later ones succeed.
        with self.refused("-ENETDOWN"):
            self.start(sender, busy)
        for plan, target, slot in ((busy, busy_target, 1), (idle, idle_target, 0)):
            self.assertEqual(self.start(sender, plan)["rail"], "ofi")
            self.arrived(receiver, 0, target, slot=slot)
        with self.refused("-ENETDOWN", "peach2"):
            self.start(sender, asked)
        # A plan committed now takes the remaining rail.
        late, late_target = self.plan(sender, receiver, 1, slot=3)
        self.assertEqual(self.start(sender, late)["rail"], "ofi")
        self.arrived(receiver, 0, late_target, slot=3)
        self.assertEqual(self.rebound(cluster[0]), 2)
        explained = cluster[0].tcactl("plan", "explain", next(plan["id"] for plan in cluster[0].plans() if plan["driver"] == "ofi"))
        self.assertEqual(explained["state"], "ready")
        self.assertEqual([(chain["driver"], chain["wanted_rail"]) for chain in explained["chains"]], [("ofi", "peach2:0")])

        cluster.hand("plug", 1, "E", "W")
        for node in cluster.nodes:
            cluster.wait_cut_off(node, set())
        again, again_target = self.plan(sender, receiver, 1, slot=4)
        self.assertEqual(self.start(sender, again)["rail"], "peach2")
        self.arrived(receiver, 0, again_target, slot=4)

    def test_while_starting(self):
        """Consecutive starts: one fails when the link is given up, all others arrive."""
        cluster = self.ring(2, rails__return_after="0")
        sender, receiver = cluster.group([0, 1])
        plan, target = self.plan(sender, receiver, 1)
        self.start(sender, plan)
        self.arrived(receiver, 0, target)
        cluster.hand("unplug", 0, "E", "W")
        failed, rails = 0, []
        while rails[-20:] != ["ofi"] * 20:
            try:
                rails.append(self.start(sender, plan)["rail"])
            except harness.Failed as error:
                self.assertEqual(error.name, "-ENETDOWN", error.text)
                failed += 1
        self.assertEqual(failed, 1)
        for _ in rails:
            receiver.ask("notified_wait 0 0 -1")
        self.assertEqual(receiver.ask("notified 0 0"), ["0"])
        receiver.ask(f"check {target} 0 4096 7")

    def test_way_back(self):
        """The boards reach the node again: plans move back between two starts, without a failure; so do those committed
        meanwhile. A second loss keeps them away for longer."""
        cluster = self.ring(3, rails__return_after="300ms")
        sender, receiver = cluster.group([0, 1])
        idle, idle_target = self.plan(sender, receiver, 1)
        busy, _ = self.plan(sender, receiver, 1, slot=1)
        self.start(sender, idle)
        self.arrived(receiver, 0, idle_target)
        cluster.hand("unplug", 1, "E", "W")
        cluster.wait_cut_off(cluster[0], {1})
        late, late_target = self.plan(sender, receiver, 1, slot=2)
        with self.refused("-ENETDOWN"):
            self.start(sender, idle)
        starts = 0
        while starts < 20 or self.rail(cluster[0], sender, busy) != "peach2":
            starts += 1
            self.start(sender, busy)
            if starts == 10:
                self.assertEqual([self.rail(cluster[0], sender, plan) for plan in (idle, busy, late)], ["ofi"] * 3)
                cluster.hand("plug", 1, "E", "W")
        for plan, target, slot in ((idle, idle_target, 0), (late, late_target, 2)):
            until(lambda plan=plan: self.rail(cluster[0], sender, plan) == "peach2", "it has gone back")
            explained = cluster[0].tcactl("plan", "explain", self.plan_id(cluster[0], sender, plan))
            self.assertEqual(explained["chains"][0]["wanted_rail"], "peach2:0")
            self.assertEqual(self.start(sender, plan)["rail"], "peach2")
            self.arrived(receiver, 0, target, slot=slot)
        for _ in range(starts):
            receiver.ask("notified_wait 0 1 -1")
        self.assertEqual(receiver.ask("notified 0 1"), ["0"])
        self.assertEqual(self.rebound(cluster[0]), 2)
        self.assertEqual(self.rebound(cluster[0], "returned"), 3)
        self.assertRegex(cluster[0].log_text(), "a better rail than ofi:[a-z]+:lo is back, it continues on rail peach2:0")

    def test_stuck_board(self):
        """A board that is cabled but stuck: plans do not move back before the node replies over it."""
        cluster = self.ring(2, rails__return_after="3s")
        sender, receiver = cluster.group([0, 1])
        plan, target = self.plan(sender, receiver, 1)
        cluster.hand("unplug", 0, "E", "W")
        cluster.wait_cut_off(cluster[0], {1})
        with self.refused("-ENETDOWN"):
            self.start(sender, plan)
        cluster.hand("plug", 0, "E", "W")
        cluster.wait_cut_off(cluster[0], set())
        cluster.boards[1].send_signal(signal.SIGSTOP)
        for _ in range(80):  # for longer than that
            self.assertEqual(self.start(sender, plan)["rail"], "ofi")
            self.arrived(receiver, 0, target)
            time.sleep(0.05)
        cluster.boards[1].send_signal(signal.SIGCONT)
        until(lambda: self.rail(cluster[0], sender, plan) == "peach2", "it has gone back")
        self.assertEqual(self.start(sender, plan)["rail"], "peach2")
        self.arrived(receiver, 0, target)

    def test_no_other_rail(self):
        cluster = self.ring(2, rails__enable="shm peach2")
        sender, receiver = cluster.group([0, 1])
        plan, target = self.plan(sender, receiver, 1)
        self.start(sender, plan)
        self.arrived(receiver, 0, target)
        cluster.hand("unplug", 0, "E", "W")
        for _ in range(2):
            with self.refused("-ENETDOWN"):
                self.start(sender, plan)
        with self.refused("-ENETDOWN", "no cable"):
            self.plan(sender, receiver, 1, slot=1)
        cluster.hand("plug", 0, "E", "W")
        cluster.wait_cables(cluster[0], {})
        again = until(lambda: self.plan_again(sender, receiver), "the rail is back")
        self.start(sender, again[0])
        self.arrived(receiver, 0, again[1], slot=1)
        with self.refused("-ENETDOWN"):  # as tca(7) says: for good
            sender.ask(f"start {plan}")

    def plan_again(self, sender, receiver):
        try:
            return self.plan(sender, receiver, 1, slot=1)
        except harness.Failed:
            return None

    def test_ends_meanwhile(self):
        """A plan is freed, a session ends, a receiver ends while the link is being given up."""
        cluster = self.ring(2)
        actors = [cluster.group([0, 1], name=f"job{i}") for i in range(3)]
        plans = [self.plan(sender, receiver, 1)[0] for sender, receiver in actors]
        for (sender, _), plan in zip(actors, plans):
            self.start(sender, plan)
        cluster.hand("unplug", 0, "E", "W")
        for (sender, _), plan in zip(actors, plans):
            sender.ask(f"start {plan}")
        actors[0][0].tell(f"freeplan {plans[0]}")  # replied to when nothing of it is running any more
        actors[1][0].kill()
        actors[2][1].kill()
        actors[0][0].answer()
        with self.assertRaises(harness.Failed):  # for the link or for the receiver, whichever is first
            actors[2][0].ask(f"wait {plans[2]} -1")
        with self.refused("-EOWNERDEAD"):
            self.start(actors[2][0], plans[2])
        until(lambda: cluster[0].counts()[2] == 1, "the freed plans are gone")

    def test_own_board(self):
        """The board of a node dies for good: all its plans to others move."""
        cluster = self.ring(3)
        sender, first, second = cluster.group([0, 1, 2])
        plans = [self.plan(sender, receiver, rank) for rank, receiver in ((1, first), (2, second))]
        for plan, _ in plans:
            self.start(sender, plan)
        cluster.kill_board(0)
        cluster.wait_cut_off(cluster[0], {0, 1, 2})
        cluster.wait_cut_off(cluster[1], {0})
        for (plan, target), receiver in zip(plans, (first, second)):
            self.arrived(receiver, 0, target)
            until(lambda plan=plan: self.rail(cluster[0], sender, plan) == "ofi", "it has moved")
            self.assertEqual(self.start(sender, plan)["rail"], "ofi")
            self.arrived(receiver, 0, target)

    @staticmethod
    def rebound(node, what="rebound"):
        families = {family["name"]: family for family in node.tcactl("stats")["families"]}
        return families[f"tcad_plans_{what}"]["samples"][0]["value"]

    @staticmethod
    def plan_id(node, sender, plan):
        return [entry["id"] for entry in node.plans() if entry["pid"] == sender.pid][plan]

    @staticmethod
    def rail(node, sender, plan):
        return [entry["driver"] for entry in node.plans() if entry["pid"] == sender.pid][plan]


class Measured(Boards):
    def test_under_way(self):
        """The rail is measured through its own board, while that serves others."""
        cluster = self.ring(2)
        actors = cluster.group([0, 1])
        stream = Stream(*actors, rail="peach2")
        stream.begin()
        for _ in range(3):
            rails = {(row["driver"], row["seat"]): row for row in cluster[0].tcactl("calibrate")["rails"]}
            self.assertTrue(rails["peach2", "daemon"]["valid"], rails)
            self.assertGreater(rails["peach2", "daemon"]["latency_ns"], 0)
        self.assertGreater(stream.finish(), 0)

    def test_without_a_board(self):
        """The board has gone: the other rails are measured, and this one is not chosen."""
        cluster = self.ring(2)
        cluster.kill_board(0)
        cluster.wait_cut_off(cluster[0], {0, 1})
        rails = {row["driver"]: row for row in cluster[0].tcactl("calibrate")["rails"]}
        self.assertFalse(rails["peach2"]["valid"], rails)
        self.assertTrue(rails["ofi"]["valid"], rails)


class Elsewhere(Ring):
    """Boards with sockets at other paths than the default: tcad.conf names them."""

    def __init__(self, nodes, options):
        super().__init__(nodes, options)
        for node in self.nodes:
            node.options = {**node.options, "rails.peach2_board": self.path(node.number)}
            node.configure()

    def path(self, number):
        return os.path.join(self.directory, f"board{number}")


class Misplaced(harness.Case):
    def test_path(self):
        cluster = Elsewhere(2, {})
        self.addCleanup(self.take_down, cluster)
        sender, receiver = cluster.up().group([0, 1])
        stream = Stream(sender, receiver, rail="peach2")
        self.assertEqual(stream.run(10), 10)

    def test_none(self):
        """There is no board: the daemon reports where it looked, and what is needed."""
        cluster = Elsewhere(1, {})
        self.addCleanup(cluster.remove)
        cluster[0].start()
        self.addCleanup(cluster[0].kill)
        self.assertEqual(cluster[0].process.wait(harness.DEADLINE_S), 1)
        self.assertIn(f"rails.peach2_board = {cluster.path(0)}", cluster[0].log_text())
        self.assertIn("tca-peach2", cluster[0].log_text())

    def test_number(self):
        """A board with another position than its node's: the daemon does not start, and reports the remedy."""
        cluster = Ring(2, {})
        self.addCleanup(cluster.remove)
        cluster.start_board(1)
        self.addCleanup(cluster.kill_board, 1)
        until(lambda: os.path.exists(cluster.path(1)), "the board is there")
        os.rename(cluster.path(1), cluster.path(0))
        cluster[0].start()
        self.addCleanup(cluster[0].kill)
        self.assertEqual(cluster[0].process.wait(harness.DEADLINE_S), 1)
        self.assertIn("tca-peach2 --node", cluster[0].log_text())


class Mixed(Boards):
    def test_chain(self):
        """A chain that also puts into its own node: all of it goes over the boards."""
        cluster = self.ring(2)
        sender, receiver = cluster.group([0, 1])
        source = sender.alloc(4096)
        here = sender.alloc(4096)
        there = receiver.alloc(4096)
        sender.ask(f"fill {source} 0 4096 3")
        plan = sender.plan(f"put {source} 0 4096 {sender.handle(here)} 0 4096", "notify 0 0",
                           f"put {source} 0 4096 {receiver.handle(there)} 0 4096", "notify 1 0", rail="peach2")
        self.assertEqual(self.start(sender, plan)["rail"], "peach2")
        for actor, target in ((sender, here), (receiver, there)):
            actor.ask("notified_wait 0 0 -1")
            actor.ask(f"check {target} 0 4096 3")


if __name__ == "__main__":
    harness.main()
