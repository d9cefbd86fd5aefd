#!/usr/bin/env python3
"""Plans that find by trial whether their process or tcad puts faster to another node: every start is right in both seats, in order
and once, whatever happens meanwhile."""

import contextlib
import itertools
import json
import os
import signal
import socket
import subprocess
import tempfile
import time

import harness
from actors import Failed
from connections import connections_of, cut_off, finish, garble, rail_port, reset, sockets_of
from harness import Stream, until

ENOUGH = 4000  # starts: trials take some hundred
BATCH = 10
SIZE = 1 << 17  # worth a trial, calibrated or not
COPIED = 1 << 15  # a put of this size completes before it has arrived
OPTIONS = {"rails.enable": "shm tcp", "rails.tcp_security": "plain"}
SO_MAX_PACING_RATE = 47
SLOW_BYTES_PER_S = 20_000_000  # on processors that have nothing else to do
LOST = ("-ENETDOWN", "-ETIMEDOUT", "-ECONNRESET", "-EPIPE", "-ESHUTDOWN")


class Seats(harness.Case):
    def two(self, name="job", options=None, **environment):
        cluster = self.cluster(2, options={**OPTIONS, **(options or {})})
        return cluster, cluster.group([0, 1], name=name, **environment)

    @staticmethod
    def own_connections(actor):
        """Those over which the process puts by itself."""
        for each in sockets_of(actor.pid):
            if each.family == socket.AF_INET and each.type == socket.SOCK_STREAM:
                yield each

    @staticmethod
    def pace(pair):
        """Bytes per second at which a put of SIZE takes several times as long as in either seat, as busy as the processors are."""
        slowest_s = 0
        for seat in ("client", "daemon"):
            stream = Stream(*pair, shape=str(SIZE), seat=seat, ack_seat="daemon", slot=7, name="first")
            stream.run(1)
            began = time.monotonic()
            stream.run(BATCH)
            slowest_s = max(slowest_s, (time.monotonic() - began) / BATCH)
        return min(SLOW_BYTES_PER_S, int(SIZE / (4 * slowest_s)))

    def slow_down(self, cluster, pair, seat, bytes_per_s=SLOW_BYTES_PER_S):
        """All connections of one seat, which begin to exist when a plan needs them."""
        sender, receiver = pair
        source, target = sender.alloc(64), receiver.alloc(64)
        for each in ("client", "daemon"):
            sender.run(sender.plan(f"put {source} 0 64 {receiver.handle(target)} 0 64", name="first", seat=each), -1)
        ports = {rail_port(node, "tcp") for node in cluster.nodes}
        connections = (self.own_connections(actor) for actor in pair) if seat == "client" else \
            (connections_of(node, ports) for node in cluster.nodes)
        slowed = 0
        for connection in itertools.chain.from_iterable(connections):
            connection.setsockopt(socket.SOL_SOCKET, SO_MAX_PACING_RATE, bytes_per_s)
            slowed += 1
        assert slowed >= 2, slowed

    def settles(self, stream):
        """Returns the seats of the starts so far, the last one last."""
        seats = []
        while not seats or stream.sender.receipt(stream.plan)["trying"]:
            self.assertLess(len(seats) * BATCH, ENOUGH)
            self.assertEqual(stream.run(BATCH), BATCH)
            seats.append(stream.sender.receipt(stream.plan)["seat"])
        self.assertEqual(stream.run(BATCH), BATCH)
        return seats + [stream.sender.receipt(stream.plan)["seat"]]

    @staticmethod
    def candidates(node, name="stream"):
        plan, = (plan["id"] for plan in node.plans() if plan["name"] == name)
        return {each["seat"]: each for each in node.tcactl("plan", plan)["chains"][0]["candidates"] if each["possible"]}

    def test_landings_in_freed_memory(self):
        """A node numbers some thousand landings before it gives a number again; the process has forgotten them with the memory."""
        _, (sender, receiver) = self.two()
        source = sender.alloc(64)
        for _ in range(6):
            target = receiver.alloc(64)
            put = f"put {source} 0 8 {receiver.handle(target)} 0 8"
            plan = sender.plan(*[put] * 1024, "notify 1 0", rail="tcp", seat="client")
            sender.run(plan, 1)
            receiver.ask("notified_wait 0 0 -1")
            receiver.ask(f"free {target}")
            sender.ask(f"freeplan {plan}")

    def test_the_faster_seat_stays(self):
        for slow, fast in (("client", "daemon"), ("daemon", "client")):
            with self.subTest(slow=slow):
                cluster, pair = self.two()
                stream = Stream(*pair, shape="2000x64x80", target_shape=str(128000))
                self.assertEqual(stream.run(1), 1)
                receipt = pair[0].receipt(stream.plan)
                self.assertEqual((receipt["seat"], receipt["trying"], receipt["bytes"]), ("client", 1, 128000))
                self.slow_down(cluster, pair, slow, self.pace(pair))
                seats = self.settles(stream)
                self.assertEqual((set(seats), seats[-1]), ({"client", "daemon"}, fast))
                until(lambda: self.candidates(cluster[0])[fast]["chosen"], "tcad has heard of it")
                tried = self.candidates(cluster[0])
                self.assertEqual((tried[fast]["why"], tried[slow]["why"]), ("fastest by trial", "slower by trial"))
                self.assertTrue(tried[fast]["blocks"] > 0 and tried[slow]["blocks"] > 0, tried)
                self.assertLess(tried[fast]["ns"], tried[slow]["ns"])
                self.assertEqual(stream.run(200), 200)
                receipt = pair[0].receipt(stream.plan)
                self.assertEqual((receipt["seat"], receipt["bytes"], receipt["name"]), (fast, 128000, "tcp:lo"))
                plan, = (plan for plan in cluster[0].plans() if plan["name"] == "stream")
                self.assertEqual((plan["seat"], plan["starts"]), (fast, receipt["starts"]))

    def test_starts_stay_in_order(self):
        """Nobody answers, and a slow connection holds data of starts that are complete, because puts of this size are copied: the
        last one is there last, and each arrives once."""
        for slow in ("client", "daemon"):
            with self.subTest(slow=slow):
                cluster, pair = self.two()
                sender, receiver = pair
                self.slow_down(cluster, pair, slow)
                source, target = sender.alloc(SIZE), receiver.alloc(SIZE)
                handle = receiver.handle(target)
                plan = sender.plan(*(f"put {source} {at} {COPIED} {handle} {at} {COPIED}" for at in range(0, SIZE, COPIED)), "notify 1 0",
                                   name="stream")
                count, seat, seats = 0, None, set()
                while count == 0 or sender.receipt(plan)["trying"]:
                    self.assertLess(count, ENOUGH)
                    before, first = seat, count
                    while count < first + BATCH and seat == before:  # until the seat changes: what is in flight is to stay ahead
                        count += 1
                        sender.ask(f"fill {source} 0 {SIZE} {count % 250}")
                        sender.run(plan, -1)
                        seat = sender.receipt(plan)["seat"]
                    seats.add(seat)
                    for _ in range(first, count):
                        receiver.ask("notified_wait 0 0 -1")
                    receiver.ask(f"check {target} 0 {SIZE} {count % 250}")
                    self.assertEqual(receiver.ask("count 0 0"), ["0"])
                self.assertEqual(seats, {"client", "daemon"})

    def test_plans_stay_in_order(self):
        """Two plans of a channel write to the same memory, one after the other or together: one tries both seats, the other stays in
        its process's. Nobody answers, and a slow connection holds data of starts that are complete: the last one is there last."""
        for slow in ("client", "daemon"):
            with self.subTest(slow=slow):
                cluster, pair = self.two()
                sender, receiver = pair
                self.slow_down(cluster, pair, slow)
                sources, target = [sender.alloc(SIZE) for _ in range(2)], receiver.alloc(SIZE)
                handle = receiver.handle(target)
                plans = [sender.plan(*(f"put {source} {at} {COPIED} {handle} {at} {COPIED}" for at in range(0, SIZE, COPIED)), "notify 1 0",
                                     name=name, seat=seat) for source, name, seat in zip(sources, ("stream", "other"), ("any", "client"))]
                count, seats = 0, set()
                while count == 0 or sender.receipt(plans[0])["trying"]:
                    self.assertLess(count, ENOUGH)
                    first, together = count, count % 4 < 2
                    for plan, source in list(zip(plans, sources))[::1 if count % 8 < 4 else -1]:
                        count += 1
                        sender.ask(f"fill {source} 0 {SIZE} {count % 250}")
                        sender.ask(f"start {plan}")
                        if not together:
                            sender.ask(f"wait {plan} -1")
                    for plan in plans if together else ():
                        sender.ask(f"wait {plan} -1")
                    seats.add(sender.receipt(plans[0])["seat"])
                    for _ in range(first, count):
                        receiver.ask("notified_wait 0 0 -1")
                    receiver.ask(f"check {target} 0 {SIZE} {count % 250}")
                self.assertEqual(seats, {"client", "daemon"})

    def test_a_long_put_is_not_overtaken(self):
        """By a short one of another plan of its channel, over the connection of the two processes, which cannot take all at once."""
        cluster, pair = self.two()
        sender, receiver = pair
        self.slow_down(cluster, pair, "client")
        size = 4 << 20
        sources, target = [sender.alloc(size) for _ in range(2)], receiver.alloc(size)
        handle = receiver.handle(target)
        long, short = (sender.plan(f"put {source} {at} {size - at} {handle} {at} {size - at}", "notify 1 0", seat="client")
                       for source, at in zip(sources, (0, size - 64)))
        for turn in range(3):
            sender.ask(f"fill {sources[0]} 0 {size} {2 * turn}")
            sender.ask(f"fill {sources[1]} {size - 64} 64 {2 * turn + 1}")
            for plan in (long, short):
                sender.ask(f"start {plan}")
            for plan in (long, short):
                sender.ask(f"wait {plan} -1")
            for _ in range(2):
                receiver.ask("notified_wait 0 0 -1")
            receiver.ask(f"check {target} {size - 64} 64 {2 * turn + 1}")

    def test_several_plans(self):
        """Two plans of different shapes, one with two chains, in each direction, in each iteration."""
        cluster, pair = self.two()
        self.slow_down(cluster, pair, "client")
        shapes = ("100000", "4000x16x32", "90000")
        places = [i * 200000 for i in range(len(shapes))]
        regions = [(actor.alloc(1 << 20), actor.alloc(1 << 20)) for actor in pair]
        plans = []
        for rank, actor in enumerate(pair):
            handle = pair[1 - rank].handle(regions[1 - rank][1])
            steps = [(f"put {regions[rank][0]} {place} {shape} {handle} {place} {shape}", f"notify {1 - rank} {i}")
                     for i, (place, shape) in enumerate(zip(places, shapes))]
            plans.append([actor.plan(*steps[0], "chain", *steps[1], name="two"), actor.plan(*steps[2], name="one")])

        def start_all(number):
            seed = number % 250
            for actor, (source, _), own in zip(pair, regions, plans):
                actor.ask_all(*(f"fill {source} {place} {shape} {seed}" for place, shape in zip(places, shapes)),
                              *(f"start {plan}" for plan in own))
            for actor, own in zip(pair, plans):
                actor.ask_all(*(f"wait {plan} -1" for plan in own))
            for rank, (actor, (_, target)) in enumerate(zip(pair, regions)):
                actor.ask_all(*(f"notified_wait {1 - rank} {i} -1" for i in range(len(shapes))),
                              *(f"check {target} {place} {shape} {seed}" for place, shape in zip(places, shapes)))

        for starts in range(1, ENOUGH):
            start_all(starts)
            if not any(actor.receipt(plan)["trying"] for actor, own in zip(pair, plans) for plan in own):
                break
        else:
            self.fail("still trying")
        start_all(ENOUGH)
        # Which seat an iteration takes less time in, in this program, depends on the machine. That seat stays.
        for node, actor, own in zip(cluster.nodes, pair, plans):
            for name, plan in zip(("two", "one"), own):
                tried = self.candidates(node, name)
                self.assertTrue(tried["client"]["blocks"] > 0 and tried["daemon"]["blocks"] > 0, tried)
                self.assertEqual(actor.receipt(plan)["seat"], self.best(tried), tried)
                until(lambda node=node, name=name, best=self.best(tried): self.candidates(node, name)[best]["chosen"], "tcad has heard of it")

    @staticmethod
    def best(tried):
        """The first one, the client's, need not be faster: the other one must be, by 2 %."""
        return "daemon" if tried["daemon"]["ns"] < 0.98 * tried["client"]["ns"] else "client"

    def test_wisdom(self):
        with tempfile.TemporaryDirectory(prefix="tca-wisdom-") as folder:
            path = os.path.join(folder, "wisdom")
            cluster = self.cluster(2, options=OPTIONS)

            def one_run(name, **settings):
                pair = cluster.group([0, 1], name=name, TCA_WISDOM=path, **settings)
                stream = Stream(*pair, shape=str(SIZE))
                self.assertEqual(stream.run(1), 1)
                receipt = pair[0].receipt(stream.plan)
                return stream, pair, (receipt["seat"], receipt["trying"])

            def close(pair):
                for actor in pair:
                    actor.ask("close")

            _, pair, seen = one_run("before", TCA_TUNE="frozen")
            self.assertEqual(seen, ("client", 0))
            close(pair)
            self.assertFalse(os.path.exists(path))
            stream, pair, seen = one_run("first")
            self.assertEqual(seen, ("client", 1))
            self.slow_down(cluster, pair, "client", self.pace(pair))
            self.assertEqual(self.settles(stream)[-1], "daemon")
            close(pair)
            entries = self.wisdom(path)
            self.assertEqual([(entry["seat"], entry["rail"], entry["mode"], entry["bytes"]) for entry in entries],
                             [("daemon", "tcp:lo", None, SIZE)])
            for name, settings, expected in (("next", {}, ("daemon", 0)), ("frozen", {"TCA_TUNE": "frozen"}, ("daemon", 0)),
                                             ("off", {"TCA_TUNE": "off"}, ("client", 0))):
                with self.subTest(name=name):
                    stream, pair, seen = one_run(name, **settings)
                    self.assertEqual(seen, expected)
                    self.assertEqual(stream.run(100), 100)
                    self.assertEqual(pair[0].receipt(stream.plan)["seat"], expected[0])
                    close(pair)
            self.assertEqual(self.wisdom(path), entries)

    @staticmethod
    def wisdom(path):
        text = subprocess.run([harness.program("tcactl"), "--json", "wisdom"], env={**os.environ, "TCA_WISDOM": path},
                              stdout=subprocess.PIPE, check=True).stdout
        return json.loads(text)["entries"]

    def test_known_plans_stay_in_order(self):
        """A plan that an earlier run has found to be faster in tcad's seat, which is slow now, and one in its process's seat. The first
        is freed at last, while its data is on its way."""
        with tempfile.TemporaryDirectory(prefix="tca-wisdom-") as folder:
            cluster = self.cluster(2, options=OPTIONS)

            def one_run(name, slow):
                sender, receiver = pair = cluster.group([0, 1], name=name, TCA_WISDOM=os.path.join(folder, "wisdom"))
                sources, target = [sender.alloc(SIZE) for _ in range(2)], receiver.alloc(SIZE)
                puts = [[f"put {source} {at} {COPIED} {receiver.handle(target)} {at} {COPIED}" for at in range(0, SIZE, COPIED)]
                        for source in sources]
                plan = sender.plan(*puts[0], "notify 1 0")
                self.slow_down(cluster, pair, slow)
                return pair, sources, target, puts, plan

            (sender, receiver), _, _, _, plan = one_run("first", "client")
            for _ in range(ENOUGH):
                sender.run(plan, -1)
                receiver.ask("notified_wait 0 0 -1")
                if not sender.receipt(plan)["trying"]:
                    break
            for actor in (sender, receiver):
                actor.ask("close")
            (sender, receiver), sources, target, puts, plan = one_run("next", "daemon")
            plans = [plan, sender.plan(*puts[1], "notify 1 0", seat="client")]
            for count in range(1, 17):
                order = (0, 1) if count % 3 else (1, 0)
                for which in order:
                    sender.ask(f"fill {sources[which]} 0 {SIZE} {2 * count + which}")
                    sender.run(plans[which], -1)
                    self.assertEqual(sender.receipt(plans[which])["seat"], ("daemon", "client")[which])
                for _ in plans:
                    receiver.ask("notified_wait 0 0 -1")
                receiver.ask(f"check {target} 0 {SIZE} {2 * count + order[1]}")
            for which in (0, 1):
                sender.ask(f"fill {sources[which]} 0 {SIZE} {which}")
                sender.run(plans[which], -1)
                if which == 0:
                    sender.ask(f"freeplan {plan}")
            for _ in plans:
                receiver.ask("notified_wait 0 0 -1")
            receiver.ask(f"check {target} 0 {SIZE} 1")

    def test_what_is_not_tried(self):
        """Short data, which tcad's seat cannot make up for; who asks for a seat; and what only tcad can do."""
        cluster, pair = self.two()
        for slot, (shape, wishes) in enumerate((("4096", {}), (str(SIZE), {"seat": "client"}), (str(SIZE), {"seat": "daemon"}))):
            with self.subTest(shape=shape, **wishes):
                stream = Stream(*pair, shape=shape, slot=slot, **wishes)
                self.assertEqual(stream.run(100), 100)
                receipt = pair[0].receipt(stream.plan)
                self.assertEqual((receipt["seat"], receipt["trying"]), (wishes.get("seat", "client"), 0))
        self.assertEqual({plan["seat"] for plan in cluster[0].plans() if plan["bytes"] == 4096}, {"client"})

    # ---- troubles

    def tries_in(self, seat, pair, start):
        """Starts until it tries this seat."""
        for _ in range(ENOUGH):
            start()
            if pair[0].receipt(self.plan)["seat"] == seat and pair[0].receipt(self.plan)["starts"] > 40:
                break
        self.assertEqual(pair[0].receipt(self.plan)["trying"], 1)

    def troubled(self, options=None):
        cluster, pair = self.two(options=options)
        sender, receiver = pair
        source, target = sender.alloc(SIZE), receiver.alloc(SIZE)
        self.plan = sender.plan(f"put {source} 0 {SIZE} {receiver.handle(target)} 0 {SIZE}", "notify 1 0", name="stream")
        seeds = itertools.cycle(range(1, 250))

        def start(errors=()):
            """Whether it succeeds; then its data is right."""
            seed = next(seeds)
            sender.ask(f"fill {source} 0 {SIZE} {seed}")
            try:
                sender.run(self.plan, -1)
            except Failed as error:
                self.assertIn(error.name, errors, error.text)
                return False
            receiver.ask("notified_wait 0 0 -1")
            while errors and receiver.ask("count 0 0") != ["0"]:  # of starts that failed here and arrived there
                receiver.ask("notified_wait 0 0 -1")
            receiver.ask(f"check {target} 0 {SIZE} {seed}")
            self.assertEqual(receiver.ask("count 0 0"), ["0"])
            return True

        return cluster, pair, start

    def test_the_daemons_lose_their_rail(self):
        """The plan goes on in its client's seat."""
        for seat in ("client", "daemon"):
            with self.subTest(seat=seat):
                cluster, pair, start = self.troubled()
                self.tries_in(seat, pair, start)
                with cut_off(cluster.nodes, "tcp"):
                    until(lambda: start(LOST) and not pair[0].receipt(self.plan)["trying"], "the trial has ended")
                    for _ in range(BATCH):
                        self.assertTrue(start())
                    self.assertEqual(pair[0].receipt(self.plan)["seat"], "client")
                    self.assertEqual(self.candidates(cluster[0])["client"]["chosen"], True)

    def test_the_pair_is_reset(self):
        """It gets another connection; no start is lost."""
        for seat in ("client", "daemon"):
            with self.subTest(seat=seat):
                _, pair, start = self.troubled()
                self.tries_in(seat, pair, start)
                for number in range(12):
                    for each in self.own_connections(pair[number % 2]):
                        with contextlib.suppress(OSError):
                            (reset if number % 3 else finish)(each)
                    for _ in range(7):
                        self.assertTrue(start())
                until(lambda: start() and not pair[0].receipt(self.plan)["trying"], "the trial has ended")

    def gives_up_the_pair(self, cluster, pair):
        for each in self.own_connections(pair[1]):
            garble(each)
        plan, = (plan["id"] for plan in cluster[0].plans() if plan["name"] == "stream")
        until(lambda: cluster[0].tcactl("plan", plan)["chains"][0]["steps"][0]["pair"]["ended"], "both know that it is no good")

    def test_the_pair_is_given_up(self):
        """A plan in tcad's seat goes on there. If it was still trying, it moves up to the next pair; else it stays, until the daemons lose
        their rail, too."""
        for settled in (False, True):
            with self.subTest(settled=settled):
                cluster, pair = self.two()
                stream = Stream(*pair, shape=str(SIZE), ack_seat="daemon", ack_rail="tcp")
                self.slow_down(cluster, pair, "client")
                if settled:
                    self.settles(stream)
                self.assertEqual(stream.run(1), 1)
                while pair[0].receipt(stream.plan)["seat"] != "daemon":
                    self.assertEqual(stream.run(BATCH), BATCH)
                self.assertEqual(pair[0].receipt(stream.plan)["trying"], 0 if settled else 1)
                self.gives_up_the_pair(cluster, pair)
                self.assertEqual(stream.run(100), 100)
                receipt = pair[0].receipt(stream.plan)
                if settled:
                    self.assertEqual((receipt["seat"], receipt["trying"]), ("daemon", 0))
                    with cut_off(cluster.nodes, "tcp"):
                        until(lambda pair=pair, plan=stream.plan: self.is_broken(pair[0], plan), "the plan breaks")
                else:
                    until(lambda s=stream: s.run(1) and pair[0].receipt(s.plan)["seat"] == "client", "it has another pair")
                    self.assertEqual(stream.run(100), 100)

    @staticmethod
    def is_broken(sender, plan):
        try:
            sender.ask(f"start {plan}")
            sender.ask(f"wait {plan} -1")
        except Failed as failed:
            return "cannot be started any more" in failed.text
        return False

    def test_a_daemon_is_stopped(self):
        for seat in ("client", "daemon"):
            for node in (0, 1):
                with self.subTest(seat=seat, node=node):
                    cluster, pair, start = self.troubled({"control.heartbeat_timeout": "60s"})
                    self.tries_in(seat, pair, start)
                    for number in range(4):
                        for _ in range(number):
                            start()
                        cluster[node].pause()
                        pair[0].ask(f"start {self.plan}")
                        with contextlib.suppress(Failed):
                            pair[0].ask(f"wait {self.plan} 50")
                        cluster[node].resume()
                        pair[0].ask(f"wait {self.plan} -1")
                        pair[1].ask("notified_wait 0 0 -1")
                        self.assertTrue(start())
                    until(lambda: start() and not pair[0].receipt(self.plan)["trying"], "the trial has ended")

    def test_the_receiver_is_stopped(self):
        """Before each start of the trial's first blocks, so that some of them are held in vain: all arrive when it goes on."""
        _, pair, start = self.troubled()
        self.tries_in("client", pair, start)
        for _ in range(40):
            harness.stop(pair[1].pid)
            pair[0].ask(f"start {self.plan}")
            with contextlib.suppress(Failed):
                pair[0].ask(f"wait {self.plan} 30")
            os.kill(pair[1].pid, signal.SIGCONT)
            pair[0].ask(f"wait {self.plan} -1")
            pair[1].ask("notified_wait 0 0 -1")
        until(lambda: start() and not pair[0].receipt(self.plan)["trying"], "the trial has ended")

    def test_ends(self):
        """Of the receiver, its daemon, the sender and its plan, while it tries; others go on."""
        for seat in ("client", "daemon"):
            for victim, errors in (("receiver", ("-EOWNERDEAD",)), ("its daemon", ("-EHOSTDOWN",)), ("sender", ()), ("plan", ())):
                with self.subTest(seat=seat, victim=victim):
                    cluster, pair, start = self.troubled()
                    self.tries_in(seat, pair, start)
                    if victim in ("receiver", "its daemon"):
                        (pair[1] if victim == "receiver" else cluster[1]).kill()

                        def breaks():
                            try:
                                pair[0].run(self.plan, -1)
                            except Failed as failed:
                                self.assertIn(failed.name, errors + LOST, failed.text)
                                return failed.name in errors
                            return False
                        until(breaks, "the sender hears of it")
                    elif victim == "sender":
                        pair[0].kill()
                        until(lambda: not cluster[0].sessions(), "its daemon has dropped it")
                        until(lambda: cluster[1].tcactl("status")["daemon"]["pid"], "the other one is well")
                    else:
                        pair[0].ask(f"start {self.plan}")
                        pair[0].ask(f"freeplan {self.plan}")
                        pair[1].ask("notified_wait 0 0 -1")
                        until(lambda: not cluster[0].plans(), "it is released")


if __name__ == "__main__":
    harness.main()
