#!/usr/bin/env python3
"""The connections between daemons are cut again and again, while sessions join groups, commit, put and die: clients see only what
has happened to sessions and nodes, and every request gets one reply.

TCA_TEST_ROUNDS=20 repeats it twenty times as often.
"""

import contextlib
import random
import re
import threading
import time

import harness
from connections import connections_of, finish, garble, reset, swallow

CUTS = harness.rounds(80)
PATIENT = {"control.heartbeat_timeout": "600s"}


class Resume(harness.Case):
    def setUp(self):
        super().setUp()
        self.random = random.Random(1)

    @staticmethod
    def control_ports(cluster):
        with open(cluster.file, encoding="ascii") as file:
            return {int(port) for port in re.findall(r"address=\S+:(\d+)", file.read())}

    def cut(self, node, ports, *ways):
        """The number of its connections to other daemons."""
        cuts = 0
        for each in connections_of(node, ports):
            with contextlib.suppress(OSError):
                self.random.choice(ways or (reset, finish, garble))(each)
                cuts += 1
        return cuts

    def cut_one(self, cluster, ports, *ways):
        harness.until(lambda: self.cut(self.random.choice(cluster.nodes), ports, *ways) > 0, "there is a connection to cut")

    @staticmethod
    def seen(node, other):
        return next(entry for entry in node.tcactl("nodes")["nodes"] if entry["id"] == other.number)

    def state(self, node, other, state):
        harness.until(lambda: node.state_of(other) == state, f"node{node.number} sees node{other.number} {state}")

    def pair(self, options=None):
        cluster = self.cluster(2, options=options or PATIENT)
        return cluster, *cluster.group([0, 1])

    def barrier(self, actors):
        for actor in actors:
            actor.tell("barrier -1")
        for actor in actors:
            actor.answer()


class Cut(Resume):
    """All requests between daemons, in threads that end at the first wrong reply."""

    def meet(self, cluster, turn):
        """Groups join, gather, and end."""
        actors = [cluster.actor(node) for node in (0, 1, 2, 1)]
        for rank, actor in enumerate(actors):
            actor.tell(f"open meet{turn} {rank} 4 -2")
        for actor in actors:
            actor.answer()
        for what in range(5):
            for rank, actor in enumerate(actors):
                actor.tell(f"allgather {rank:02x}{what:02x} -2")
            for actor in actors:
                self.assertEqual(actor.answer(), ["".join(f"{rank:02x}{what:02x}" for rank in range(4))])
        for actor in actors:
            self.assertIsNone(actor.end())

    def name(self, cluster, turn):
        """Names are published, found, and withdrawn with their sessions."""
        left, right = cluster.group([2, 0], name=f"name{turn}")
        region = left.alloc(4096)
        handle = left.handle(region)
        for number in range(4):
            right.tell(f"lookup face{number} -2")
            left.ask(f"publish face{number} {handle}")
            self.assertEqual(right.answer(), [handle])
        for actor in (left, right):
            self.assertIsNone(actor.end())

    def put(self, cluster, turn):
        """Plans are committed, used, and released; regions are freed."""
        left, right = cluster.group([0, 1], name=f"put{turn}")
        for seed in range(3):
            source, target = left.alloc(65536), right.alloc(65536)
            plan = left.plan(f"put {source} 0 50000 {right.handle(target)} 0 50000", "notify 1 3", seat="daemon")
            left.ask(f"fill {source} 0 50000 {seed}")
            left.run(plan)
            right.ask("notified_wait 0 3 -2")
            right.ask(f"check {target} 0 50000 {seed}")
            self.assertEqual(right.ask("count 0 3"), ["0"])
            left.ask(f"freeplan {plan}")
            left.ask(f"free {source}")
            right.ask(f"free {target}")
        for actor in (left, right):
            self.assertIsNone(actor.end())

    def die(self, cluster, turn):
        """Sessions are killed, and those that wait for them get an error."""
        victim, witness, other = cluster.group([1, 2, 0], name=f"die{turn}")
        witness.tell("notified_wait 0 0 -1")
        other.tell("barrier -1")
        victim.kill()
        for actor in (witness, other):
            with self.refused("-EOWNERDEAD"):
                actor.answer()
            actor.kill()

    def test_cut_under_everything(self):
        cluster = self.cluster(3, options=PATIENT)
        ports, stop, wrong, turns = self.control_ports(cluster), threading.Event(), [], {}

        def work(job):
            turn = 0
            try:
                while not stop.is_set():
                    job(cluster, turn)
                    turn += 1
            except BaseException as error:  # pylint: disable=broad-except
                wrong.append(f"{job.__name__} {turn}: {error!r}")
                stop.set()
            turns[job.__name__] = turn

        for node in cluster.nodes:  # a cut connection is resumed if it was up; a cut greeting fails the requests that wait for it
            self.barrier(cluster.group([0, 1, 2], name=f"up@node{node.number}"))
            for other in cluster.nodes:
                if other is not node:
                    self.state(node, other, "up")
        threads = [threading.Thread(target=work, args=(job,)) for job in (self.meet, self.name, self.put, self.die)]
        for thread in threads:
            thread.start()
        cuts = 0
        while cuts < CUTS and not stop.wait(self.random.uniform(0, 0.05 * harness.SLOW)):
            self.cut_one(cluster, ports)
            cuts += 1
        stop.set()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [], f"after {cuts} cuts")
        self.assertTrue(all(turns.values()), turns)
        reconnects = 0
        for node in cluster.nodes:
            self.assertNotIn("is down", node.log_text())
            for other in cluster.nodes:
                if other is not node:
                    self.state(node, other, "up")
                    reconnects += self.seen(node, other)["reconnects"]
        self.assertGreater(reconnects, 0)
        print(f"{cuts} cuts, {reconnects} reconnects, turns: {turns}")
        for node in cluster.nodes:
            harness.until(lambda: node.counts()[2] == 0, "no plan is left over")

    def test_nothing_is_told_twice(self):
        """A daemon is cut in the middle of many messages: 300 names, each published once."""
        cluster, left, right = self.pair({**PATIENT, "limits.published_per_group": "1000"})
        ports = self.control_ports(cluster)
        region = left.alloc(4096)
        handle = left.handle(region)
        for number in range(300):
            right.tell(f"publish name{number} {handle}")
            if number % 5 == 0:
                self.cut_one(cluster, ports)
            right.answer()
        for number in range(0, 300, 10):
            self.assertEqual(left.ask(f"lookup name{number} -2"), [handle])


class Stopped(Resume):
    def test_stopped_while_it_is_cut(self):
        """For less than the time-out: the connection is resumed, and clients do not notice."""
        cluster, left, right = self.pair()
        self.barrier([left, right])
        for way in (finish, reset):
            with self.subTest(way=way.__name__):
                cluster[1].pause()
                self.assertGreater(self.cut(cluster[0], self.control_ports(cluster), way), 0)
                self.state(cluster[0], cluster[1], "reconnecting")
                left.tell("barrier -2")
                time.sleep(0.5)
                self.assertEqual(cluster[0].state_of(cluster[1]), "reconnecting")
                cluster[1].resume()
                right.ask("barrier -2")
                left.answer()
                self.state(cluster[0], cluster[1], "up")
        self.assertGreaterEqual(self.seen(cluster[0], cluster[1])["reconnects"], 2)
        self.assertIn("closed the connection", self.seen(cluster[0], cluster[1])["last_reconnect"])
        self.assertRegex(cluster[0].tcactl_raw("nodes").stdout, r"[2-9] reconnects, last: ")
        self.assertRegex(cluster[0].tcactl_raw("stats", "--openmetrics").stdout, r'tcad_node_reconnects_total{node="node1"} [2-9]')
        for node in cluster.nodes:
            self.assertNotIn("is down", node.log_text())

    def test_cut_in_its_first_greeting(self):
        """There is no link to resume yet: requests wait while the connection is tried again, a few times."""
        for few in (True, False):
            cluster = self.cluster(2, options=PATIENT)
            ports = self.control_ports(cluster)
            cluster[0].pause()
            joiner = cluster.actor(1)
            joiner.tell("open job@node0 0 2 -1")
            if few:
                for _ in range(3):
                    harness.until(lambda: self.cut(cluster[1], ports, finish) > 0, "there is a connection to cut")
            else:
                while not joiner.selector.select(0.01):
                    self.cut(cluster[1], ports, finish)
                with self.refused("-EHOSTDOWN", "node0", "it closed the connection"):
                    joiner.answer()
            cluster[0].resume()
            if few:
                cluster.actor(0).ask("open job@node0 1 2 -1")
                joiner.answer()
                self.assertNotIn("is down", cluster[1].log_text())
        harness.until(lambda: cluster[1].ping(cluster[0]), "they talk")
        self.barrier(cluster.group([0, 1], name="again"))

    def test_stopped_for_too_long(self):
        cluster, left, right = self.pair({"control.heartbeat_interval": "100ms", "control.heartbeat_timeout": f"{2 * harness.SLOW:.0f}s"})
        left.tell("notified_wait 1 0 -1")
        cluster[1].pause()
        self.cut(cluster[0], self.control_ports(cluster), finish)
        with self.refused("-EHOSTDOWN"):
            left.answer()
        self.assertIn("not reached again within", self.seen(cluster[0], cluster[1])["last_error"])
        cluster[1].resume()
        with self.refused("-EHOSTDOWN"):
            right.ask("notified_wait 0 0 -1")
        harness.until(lambda: cluster[0].ping(cluster[1]), "they talk again")

    def test_a_connection_that_swallows(self):
        """As behind a firewall that has dropped its state: neither end is notified, both find out in time."""
        cluster, left, right = self.pair({"control.heartbeat_interval": "200ms", "control.heartbeat_timeout": f"{10 * harness.SLOW:.0f}s"})
        self.barrier([left, right])
        self.assertGreater(self.cut(cluster[0], self.control_ports(cluster), swallow), 0)
        self.cut(cluster[1], self.control_ports(cluster), swallow)
        self.barrier([left, right])
        for node in cluster.nodes:
            self.assertNotIn("is down", node.log_text())
        self.assertGreaterEqual(self.seen(cluster[0], cluster[1])["reconnects"], 1)


class Gone(Resume):
    """Clients learn what has really happened, whatever the time-out."""

    def test_killed(self):
        cluster, left, _ = self.pair()
        left.tell("notified_wait 1 0 -1")
        cluster[1].kill()
        with self.refused("-EHOSTDOWN"):
            left.answer()
        self.assertIn("reconnecting failed", self.seen(cluster[0], cluster[1])["last_error"])

    def test_killed_while_it_is_cut(self):
        cluster, left, _ = self.pair()
        left.tell("notified_wait 1 0 -1")
        cluster[1].pause()
        self.cut(cluster[0], self.control_ports(cluster), finish)
        self.state(cluster[0], cluster[1], "reconnecting")
        cluster[1].kill()
        with self.refused("-EHOSTDOWN"):
            left.answer()

    def test_restarted(self):
        """While the other is stopped: the next thing that it sees is another incarnation."""
        cluster, left, _ = self.pair()
        left.tell("notified_wait 1 0 -1")
        cluster[0].pause()
        cluster[1].restart()
        cluster[0].resume()
        with self.refused("-EHOSTDOWN"):
            left.answer()
        self.assertIn("restarted", cluster[0].log_text())
        self.barrier(cluster.group([0, 1], name="again"))

    def test_shut_down(self):
        """It says so."""
        cluster, left, _ = self.pair()
        left.tell("notified_wait 1 0 -1")
        cluster[1].ask_to_end()
        with self.refused("-EHOSTDOWN"):
            left.answer()
        self.state(cluster[0], cluster[1], "down")
        self.assertIn("its daemon has ended", cluster[0].log_text())


if __name__ == "__main__":
    harness.main()
