#!/usr/bin/env python3
"""Plans that find their rail by trial: the fastest one stays, whatever was predicted; every start is right on every rail."""

import contextlib
import itertools
import json
import os
import socket
import subprocess
import tempfile

import harness
from actors import Failed
from boards import Ring
from connections import connections_of, cut_off, rail_port
from harness import until

ENOUGH = 4000  # starts: trials take some hundred
BATCH = 20
SIZE = 1 << 16  # larger than puts that complete once they are copied: a lost rail breaks no plan
ONE, OTHER = "tcp:lo", "tcp:b"  # without calibration, the first is preferred
OPTIONS = {"rails.enable": "shm tcp", "rails.tcp_security": "plain", f"rail {OTHER}.driver": "tcp", f"rail {OTHER}.plane": "b",
           f"rail {OTHER}.security": "plain", "rails.return_after": "200ms"}
SO_MAX_PACING_RATE = 47


class Trying(harness.Case):
    def two(self, name="job", options=None, **environment):
        cluster = self.cluster(2, options={**OPTIONS, **(options or {})})
        return cluster, cluster.group([0, 1], name=name, **environment)

    @staticmethod
    def slow_down(cluster, pair, rail, bytes_per_s=10_000_000, rails=(ONE, OTHER)):
        """The rail's connections, which begin to exist when a plan needs them."""
        sender, receiver = pair
        source, target = sender.alloc(64), receiver.alloc(64)
        for name in rails:
            plan = sender.plan(f"put {source} 0 64 {receiver.handle(target)} 0 64", name="first", rail=name, landed=True)
            sender.ask(f"start {plan}")
            sender.ask(f"wait {plan} -1")
        ports = {rail_port(node, rail) for node in cluster.nodes}
        slowed = 0
        for node in cluster.nodes:
            for connection in connections_of(node, ports):
                connection.setsockopt(socket.SOL_SOCKET, SO_MAX_PACING_RATE, bytes_per_s)
                slowed += 1
        assert slowed >= 2, slowed

    def settles(self, stream):
        for _ in range(ENOUGH // BATCH):
            self.assertEqual(stream.run(BATCH), BATCH)
            if not stream.sender.receipt(stream.plan)["trying"]:
                return self.found(stream.sender.node)
        return self.fail(f"still trying after {ENOUGH} starts")

    def found(self, node):
        """The rail that a trial which has ended has found: tcad moves the plan there, and until then, starts go on over the last one."""
        return until(lambda: next((rail for rail, each in self.candidates(node).items() if each["chosen"] and
                                   each["why"] == "fastest by trial"), None), "the plan is where it is to stay")

    @staticmethod
    def candidates(node, name="stream"):
        plan, = (plan["id"] for plan in node.plans() if plan["name"] == name)
        return {each["rail"]: each for each in node.tcactl("plan", plan)["chains"][0]["candidates"] if each["seat"] == "daemon"}

    @staticmethod
    def counter(node, name):
        return next(family for family in node.tcactl("stats")["families"] if family["name"] == name)["samples"][0]["value"]

    def test_the_faster_rail_stays(self):
        for slow, fast in ((ONE, OTHER), (OTHER, ONE)):
            with self.subTest(slow=slow):
                cluster, pair = self.two()
                stream = harness.Stream(*pair, shape="2000x24x48", target_shape="48000", ack_seat="daemon")
                self.assertEqual(stream.run(1), 1)
                receipt = pair[0].receipt(stream.plan)
                self.assertEqual((receipt["name"], receipt["trying"]), (ONE, 1))
                self.slow_down(cluster, pair, slow)
                self.assertEqual(self.settles(stream), fast)
                tried = self.candidates(cluster[0])
                self.assertEqual(tried[fast]["why"], "fastest by trial")
                self.assertTrue(tried[fast]["chosen"])
                self.assertTrue(tried[fast]["blocks"] > 0 and tried[slow]["blocks"] > 0, tried)
                self.assertLess(tried[fast]["ns"], tried[slow]["ns"])
                moves = self.counter(cluster[0], "tcad_plans_tried")
                self.assertGreater(moves, 1)
                self.assertEqual(self.counter(cluster[0], "tcad_plans_returned"), 0)
                self.assertEqual(stream.run(100), 100)
                self.assertEqual(self.counter(cluster[0], "tcad_plans_tried"), moves)
                self.assertEqual(pair[0].receipt(stream.plan)["name"], fast)

    def check_drivers(self, cluster, slow, fast):
        """Rails of two drivers."""
        pair = cluster.group([0, 1], name=fast)
        stream = harness.Stream(*pair, shape="2000x24x48", target_shape="48000", ack_seat="daemon")
        self.assertEqual(stream.run(1), 1)
        self.assertEqual(pair[0].receipt(stream.plan)["trying"], 1)
        self.slow_down(cluster, pair, slow, 2_000_000, rails=(slow, fast))
        self.assertEqual(self.settles(stream), fast)
        tried = self.candidates(cluster[0])
        self.assertEqual(tried[fast]["why"], "fastest by trial")
        self.assertTrue(tried[fast]["blocks"] > 0 and tried[slow]["blocks"] > 0, tried)
        self.assertEqual(stream.run(50), 50)
        return pair

    def test_ofi_and_tcp(self):
        for slow in ("ofi", "tcp"):
            with self.subTest(slow=slow):
                cluster = self.cluster(2, options={"rails.enable": "shm tcp ofi", "rails.ofi_unprotected": "yes",
                                                   "rails.tcp_security": "plain"})
                names = {rail["driver"]: rail["rail"] for rail in cluster[0].tcactl("status")["rails"]}
                self.check_drivers(cluster, names.pop(slow), next(names[other] for other in ("ofi", "tcp") if other in names))

    def test_boards_and_tcp(self):
        """Also when a cable is pulled, which leaves nothing to try, and plugged in again."""
        cluster = Ring(2, {"rails.enable": "shm peach2 tcp", "rails.tcp_security": "plain", "rails.return_after": "200ms"})
        self.addCleanup(self.take_down, cluster)
        cluster.up()
        pair = self.check_drivers(cluster, ONE, "peach2:0")
        source, target = (actor.alloc(SIZE) for actor in pair)
        plan = pair[0].plan(f"put {source} 0 {SIZE} {pair[1].handle(target)} 0 {SIZE}", "notify 1 0")
        seeds = itertools.cycle(range(1, 250))

        def start():
            return self.start(plan, pair, next(seeds), target, source), pair[0].receipt(plan)["trying"]

        until(lambda: start() == ("peach2:0", 0), "the trial has ended")
        cluster.hand("unplug", 0, "E", "W")
        until(lambda: start() == (ONE, 0), "the plan goes on over the other rail")
        cluster.hand("plug", 0, "E", "W")
        until(lambda: start() == ("peach2:0", 0), "it goes back to what it has found")

    def test_a_rail_that_buffers(self):
        """Starts complete when their data is on its way, and nobody answers: the rail on which it arrives soon is the better one."""
        cluster, (sender, receiver) = self.two()
        source, target = sender.alloc(SIZE), receiver.alloc(SIZE)
        plan = sender.plan(f"put {source} 0 1000 {receiver.handle(target)} 0 1000", name="stream")
        sender.ask(f"start {plan}")
        sender.ask(f"wait {plan} -1")
        self.slow_down(cluster, (sender, receiver), ONE, bytes_per_s=100_000)
        starts = 0
        while sender.receipt(plan)["trying"]:
            starts += 1
            self.assertLess(starts, ENOUGH)
            sender.ask(f"start {plan}")
            sender.ask(f"wait {plan} -1")
        self.assertEqual(self.found(cluster[0]), OTHER)

    def test_several_plans(self):
        """Two plans of different shapes in each iteration, both with two chains; and the answer of the receiver is a plan as well."""
        cluster, (sender, receiver) = self.two()
        self.slow_down(cluster, (sender, receiver), ONE)
        source, target = sender.alloc(1 << 20), receiver.alloc(1 << 20)
        handle = receiver.handle(target)
        shapes = ("60000", "1000x16x32", "24000", "60000")
        places = [i * 200000 for i in range(len(shapes))]
        steps = [(f"put {source} {place} {shape} {handle} {place} {shape}", f"notify 1 {i}")
                 for i, (place, shape) in enumerate(zip(places, shapes))]
        plans = [sender.plan(*steps[i], "chain", *steps[i + 1], name=f"plan{i}") for i in (0, 2)]
        answer = receiver.plan("notify 0 9", name="answer")
        starts = 0
        while starts == 0 or any(sender.receipt(plan)["trying"] for plan in plans):
            starts += 1
            self.assertLess(starts, ENOUGH)
            seed = starts % 250
            sender.ask_all(*(f"fill {source} {place} {shape} {seed}" for place, shape in zip(places, shapes)),
                           *(f"start {plan}" for plan in plans), *(f"wait {plan} -1" for plan in plans))
            receiver.ask_all(*(f"notified_wait 0 {i} -1" for i in range(len(shapes))),
                             *(f"check {target} {place} {shape} {seed}" for place, shape in zip(places, shapes)), f"start {answer}")
            sender.ask("notified_wait 1 9 -1")
            receiver.ask(f"wait {answer} -1")
        for i in (0, 2):
            plan, = (plan["id"] for plan in cluster[0].plans() if plan["name"] == f"plan{i}")
            until(lambda plan=plan: [chain["rail"] for chain in cluster[0].tcactl("plan", plan)["chains"]] == [OTHER, OTHER], "they move there")

    def start(self, plan, pair, seed, target, source):
        """Starts until one succeeds; its data is right. Returns the rail."""
        sender, receiver = pair

        def succeeds():
            sender.ask(f"fill {source} 0 {SIZE} {seed}")
            try:
                sender.ask(f"start {plan}")
                sender.ask(f"wait {plan} -1")
                return True
            except Failed as error:
                self.assertIn(error.name, ("-ENETDOWN", "-ETIMEDOUT", "-ECONNRESET", "-EPIPE", "-ESHUTDOWN"), error.text)
                return False

        until(succeeds, "a start succeeds")
        receiver.ask("notified_wait 0 0 -1")
        while receiver.ask("count 0 0") != ["0"]:  # of starts that failed here and arrived there
            receiver.ask("notified_wait 0 0 -1")
        receiver.ask(f"check {target} 0 {SIZE} {seed}")
        return sender.receipt(plan)["name"]

    def test_a_rail_is_lost_meanwhile(self):
        for lost, left in ((ONE, OTHER), (OTHER, ONE)):
            with self.subTest(lost=lost):
                cluster, pair = self.two()
                sender, receiver = pair
                source, target = sender.alloc(SIZE), receiver.alloc(SIZE)
                plan = sender.plan(f"put {source} 0 {SIZE} {receiver.handle(target)} 0 {SIZE}", "notify 1 0", name="stream")
                seeds = itertools.cycle(range(1, 250))

                def start():
                    rail = self.start(plan, pair, next(seeds), target, source)
                    return rail, sender.receipt(plan)["trying"]

                starts, rail, trying = 0, None, 0
                while starts < BATCH or rail != lost:
                    self.assertLess(starts, ENOUGH)
                    rail, trying = start()
                    starts += 1
                self.assertEqual(trying, 1)
                with cut_off(cluster.nodes, lost):
                    until(lambda: start() == (left, 0), "one rail is left, and nothing to try")
                until(lambda: start()[1], "it has come back, and is tried again")
                until(lambda: not start()[1], "the trial ends")

    def test_a_rail_comes_back_among_others(self):
        """The plan has found another one meanwhile, and does not wait for that rail."""
        third = {"rail tcp:c.driver": "tcp", "rail tcp:c.plane": "c", "rail tcp:c.security": "plain"}
        cluster, pair = self.two(options=third)
        sender, receiver = pair
        source, target = sender.alloc(SIZE), receiver.alloc(SIZE)
        plan = sender.plan(f"put {source} 0 {SIZE} {receiver.handle(target)} 0 {SIZE}", "notify 1 0", name="stream")
        seeds = itertools.cycle(range(1, 250))

        def start():
            rail = self.start(plan, pair, next(seeds), target, source)
            return rail, sender.receipt(plan)["trying"]

        self.assertEqual(start(), (ONE, 1))
        with cut_off(cluster.nodes, ONE):
            until(lambda: start()[0] != ONE, "it is lost")
            until(lambda: start()[1] == 0, "the others were tried")
        until(lambda: start()[1], "it has come back, and is tried")

    def test_wisdom(self):
        with tempfile.TemporaryDirectory(prefix="tca-wisdom-") as folder:
            path = os.path.join(folder, "wisdom")
            cluster = self.cluster(2, options=OPTIONS)

            def one_run(name, **settings):
                pair = cluster.group([0, 1], name=name, TCA_WISDOM=path, **settings)
                stream = harness.Stream(*pair, shape="60000", ack_seat="daemon")
                self.assertEqual(stream.run(1), 1)
                receipt = pair[0].receipt(stream.plan)
                return stream, pair, (receipt["name"], receipt["trying"])

            def close(pair):
                for actor in pair:
                    actor.ask("close")

            _, pair, seen = one_run("before", TCA_TUNE="frozen")
            self.assertEqual(seen, (ONE, 0))
            close(pair)
            self.assertFalse(os.path.exists(path))
            stream, pair, seen = one_run("first")
            self.assertEqual(seen, (ONE, 1))
            self.slow_down(cluster, pair, ONE)
            self.assertEqual(self.settles(stream), OTHER)
            close(pair)
            entries = self.wisdom(path)
            self.assertEqual([(entry["rail"], entry["mode"], entry["bytes"]) for entry in entries], [(OTHER, None, 60000)])
            for name, settings, expected in (("next", {}, (OTHER, 0)), ("frozen", {"TCA_TUNE": "frozen"}, (OTHER, 0)),
                                             ("off", {"TCA_TUNE": "off"}, (ONE, 0))):
                with self.subTest(name=name):
                    stream, pair, seen = one_run(name, **settings)
                    self.assertEqual(seen, expected)
                    self.assertEqual(stream.run(50), 50)
                    self.assertEqual(pair[0].receipt(stream.plan)["name"], expected[0])
                    close(pair)
            self.assertEqual(self.wisdom(path), entries)

    @staticmethod
    def wisdom(path):
        text = subprocess.run([harness.program("tcactl"), "--json", "wisdom"], env={**os.environ, "TCA_WISDOM": path},
                              stdout=subprocess.PIPE, check=True).stdout
        return json.loads(text)["entries"]

    def test_what_is_not_tried(self):
        """The order on a channel belongs to plans that request the daemon's seat; and who names a rail means it."""
        cluster, pair = self.two()
        for wishes in ({"seat": "daemon"}, {"rail": OTHER}):
            with self.subTest(**wishes):
                stream = harness.Stream(*pair, shape="60000", ack_seat="daemon", slot=len(wishes), **wishes)
                self.assertEqual(stream.run(60), 60)
                receipt = pair[0].receipt(stream.plan)
                self.assertEqual((receipt["name"], receipt["trying"]), (wishes.get("rail", ONE), 0))
                pair[0].ask(f"freeplan {stream.plan}")
        self.assertEqual(self.counter(cluster[0], "tcad_plans_tried"), 0)

    def test_sessions_end_meanwhile(self):
        """A receiver dies, and a sender, while plans try; others go on."""
        cluster, pair = self.two()
        others = cluster.group([0, 1], name="others")
        stay = harness.Stream(*others, shape="60000")
        for victim in (0, 1):
            mortal = cluster.group([0, 1], name=f"mortal{victim}")
            stream = harness.Stream(*mortal, shape="60000", ack_seat="daemon")
            self.assertEqual(stream.run(40 + 7 * victim), 40 + 7 * victim)
            self.assertEqual(mortal[0].receipt(stream.plan)["trying"], 1)
            mortal[victim].kill()
            self.assertEqual(stay.run(30), 30)
            if victim == 1:
                def breaks():
                    with contextlib.suppress(Failed):
                        mortal[0].ask(f"start {stream.plan}")
                        mortal[0].ask(f"wait {stream.plan} -1")
                        return False
                    return True
                until(breaks, "the sender is told")
            mortal[1 - victim].kill()
        self.settles(stay)
        until(lambda: len(cluster[0].sessions()) == 2, "the daemon has dropped them")


if __name__ == "__main__":
    harness.main()
