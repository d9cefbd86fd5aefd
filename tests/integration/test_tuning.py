#!/usr/bin/env python3
"""Plans that find their copy mode by trial: every start is right in every mode, and the trials end."""

import json
import os
import signal
import subprocess
import tempfile

import harness
from lanes import Way

ENOUGH = 4000  # starts: trials take some hundred
KNOWN = 10  # starts after which a known result is used
DISTANCES = 10  # runs
SHAPE = "100x40x100"  # of an exchange
TOGETHER = 36  # starts of two processes, before which none can have dropped a mode


class Tune(Way):
    SHAPES = (("3000", "3000"), ("60000", "60000"), ("1000x8x64", "8000"), ("100x40x100", "4x1000x2000"), ("256x256x300", "512x128x132"))

    def settles(self, stream):
        """The first start without trials."""
        for _ in range(ENOUGH // 100):
            self.assertEqual(stream.run(100), 100)
            if stream.sender.receipt(stream.plan)["trying"] == 0:
                return stream.sender.receipt(stream.plan)["starts"]
        return self.fail(f"still trying after {ENOUGH} starts")

    def test_trials_are_right_and_end(self):
        sender, receiver = self.pair(self.cluster(), "any")
        for shape, target_shape in self.SHAPES:
            with self.subTest(shape=shape, target_shape=target_shape):
                stream = harness.Stream(sender, receiver, shape=shape, target_shape=target_shape)
                self.assertEqual(stream.run(1), 1)
                self.assertEqual(sender.receipt(stream.plan)["trying"], 1)
                self.settles(stream)
                way = sender.receipt(stream.plan)["way"]
                tried = self.tried(sender)
                self.assertGreater(len(tried), 2)
                self.assertEqual([mode["mode"] for mode in tried if mode["chosen"]], [way])
                self.assertTrue(all(mode["blocks"] > 0 and mode["ns"] > 0 for mode in tried), tried)
                self.assertEqual(stream.run(50), 50)
                self.assertEqual((sender.receipt(stream.plan)["way"], sender.receipt(stream.plan)["trying"]), (way, 0))
                sender.ask(f"freeplan {stream.plan}")

    @staticmethod
    def tried(sender):
        """tcactl plan explain for the only plan of this name."""
        plan, = (plan["id"] for plan in sender.node.plans() if plan["name"] == "stream")
        step, = sender.node.tcactl("plan", plan)["chains"][0]["steps"]
        return step["copy"]["tried"]

    def test_several_kinds_in_one_plan(self):
        """One kind after the other, until all of them are known."""
        sender, receiver = self.pair(self.cluster(), "any")
        source = sender.alloc(1 << 20)
        target = receiver.alloc(1 << 20)
        handle = receiver.handle(target)
        shapes = ("4000", "20000", "200x40x100")
        places = [i * 300000 for i in range(len(shapes))]
        steps = [step for i, shape in enumerate(shapes)
                 for step in (f"put {source} {places[i]} {shape} {handle} {places[i]} {shape}", f"notify 1 {i}")]
        plan = sender.plan(*steps)
        starts = 0
        while starts == 0 or sender.receipt(plan)["trying"]:
            starts += 1
            self.assertLess(starts, ENOUGH)
            for place, shape in zip(places, shapes):
                sender.ask(f"fill {source} {place} {shape} {starts % 250}")
            sender.run(plan)
            for i, shape in enumerate(shapes):
                receiver.ask(f"notified_wait 0 {i} -2")
                receiver.ask(f"check {target} {places[i]} {shape} {starts % 250}")
        number, = (other["id"] for other in sender.node.plans())
        for step in sender.node.tcactl("plan", number)["chains"][0]["steps"]:
            self.assertGreater(len(step["copy"]["tried"]), 2, step)

    def test_no_trials(self):
        cluster = self.cluster()
        for name, settings in (("off", {"way": "any", "TCA_TUNE": "off"}), ("forced", {"way": "ring"})):
            with self.subTest(name=name):
                sender, receiver = self.pair(cluster, settings.pop("way"), name, **settings)
                stream = harness.Stream(sender, receiver, shape="60000")
                self.assertEqual(stream.run(1), 1)
                self.assertEqual(sender.receipt(stream.plan)["trying"], 0)
        with self.refused("-EINVAL", "TCA_TUNE"):
            self.pair(cluster, "any", "wrong", TCA_TUNE="perhaps")

    def test_wisdom(self):
        """The next run begins with the results of this one, and a frozen one adds nothing."""
        cluster = self.cluster()
        with tempfile.TemporaryDirectory(prefix="tca-wisdom-") as folder:
            path = os.path.join(folder, "cache", "wisdom")

            def one_run(name, **settings):
                pair = self.pair(cluster, "any", name, TCA_WISDOM=path, **settings)
                stream = harness.Stream(*pair, shape="60000")
                self.assertEqual(stream.run(KNOWN), KNOWN)
                return stream, pair

            stream, pair = one_run("frozen", TCA_TUNE="frozen")
            self.assertEqual(pair[0].receipt(stream.plan)["trying"], 0)
            self.close(pair)
            self.assertFalse(os.path.exists(path))
            stream, pair = one_run("first")
            self.assertEqual(pair[0].receipt(stream.plan)["trying"], 1)
            self.settles(stream)
            way = pair[0].receipt(stream.plan)["way"]
            self.assertFalse(os.path.exists(path), "starts do not write")
            self.close(pair)
            self.assertEqual([entry["bytes"] for entry in self.wisdom(path)], [60000])
            self.assertEqual([entry["mode"] for entry in self.wisdom(path)], [way])
            found = [way]  # on a busy machine the processors may seem farther away than before: then that is tried, too
            for number in range(DISTANCES):
                stream, pair = one_run(f"next{number}")
                receipt = pair[0].receipt(stream.plan)
                if receipt["trying"]:
                    self.settles(stream)
                    found.append(pair[0].receipt(stream.plan)["way"])
                self.close(pair)
                if not receipt["trying"]:
                    break
            self.assertEqual(receipt["trying"], 0)
            self.assertIn(receipt["way"], found)
            with open(path, "r+b") as file:  # damaged: counts as empty
                file.truncate(100)
            stream, pair = one_run("damaged")
            self.assertEqual(pair[0].receipt(stream.plan)["trying"], 1)
            self.close(pair)

    @staticmethod
    def close(pair):
        for actor in pair:
            actor.ask("close")

    @staticmethod
    def wisdom(path):
        text = subprocess.run([harness.program("tcactl"), "--json", "wisdom"], env={**os.environ, "TCA_WISDOM": path},
                              stdout=subprocess.PIPE, check=True).stdout
        return json.loads(text)["entries"]

    @staticmethod
    def exchange(actors):
        """A plan of each of two actors that puts to the other one: [(actor, plan, source, target, rank of the other one)]"""
        plans = [actors[i].put_plan(actors[1 - i], SHAPE, f"notify {1 - i} 0", region_bytes=1 << 16) for i in range(2)]
        return [(actors[i], plans[i][0], plans[i][1], plans[1 - i][2], 1 - i) for i in range(2)]

    def iterate(self, ends, number):
        """One iteration; the ways in which the two copied."""
        for actor, plan, source, _, _ in ends:
            actor.ask(f"fill {source} 0 {SHAPE} {number % 250}")
            actor.ask(f"start {plan}")
        for actor, plan, _, target, other in ends:
            actor.ask(f"wait {plan} -2")
            actor.ask(f"notified_wait {other} 0 -2")
            actor.ask(f"check {target} 0 {SHAPE} {number % 250}")
        return [actor.receipt(plan)["way"] for actor, plan, *_ in ends]

    def finish(self, ends, number):
        """Until neither tries any more."""
        while any(actor.receipt(plan)["trying"] for actor, plan, *_ in ends):
            self.assertLess(number, ENOUGH)
            self.iterate(ends, number)
            number += 1

    def test_two_that_exchange_try_the_same_together(self):
        """Else each would blame the other's slow modes: both take part in every iteration."""
        ends = self.exchange(self.pair(self.cluster(), "any"))
        seen = set()
        for number in range(TOGETHER):
            ways = self.iterate(ends, number)
            self.assertEqual(ways[0], ways[1], f"iteration {number}")
            seen.add(ways[0])
        self.assertGreater(len(seen), 2)
        self.finish(ends, TOGETHER)

    def test_receiver_is_stopped_while_the_sender_tries(self):
        sender, receiver = self.pair(self.cluster(), "any")
        plan, source, target = self.one_way(sender, receiver, "60000")
        starts = 0
        harness.stop(receiver.pid)
        try:
            while starts == 0 or sender.receipt(plan)["trying"]:
                starts += 1
                self.assertLess(starts, ENOUGH)
                sender.run(plan)
            sender.ask(f"fill {source} 0 60000 9")
            sender.run(plan)
        finally:
            os.kill(receiver.pid, signal.SIGCONT)
        for _ in range(starts + 1):
            receiver.ask("notified_wait 0 0 -2")
        receiver.ask(f"check {target} 0 60000 9")


if __name__ == "__main__":
    harness.main()
