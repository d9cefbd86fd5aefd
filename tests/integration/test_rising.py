#!/usr/bin/env python3
"""Plans that are in tcad's seat only because their processes could have no connection: when they can, the plans move up to it
between two starts, which stay in order and arrive once, whatever happens meanwhile."""

import contextlib
import itertools
import os
import random
import signal
import socket
import time

import harness
from actors import Failed
from connections import connections_of, garble, rail_port, sockets_of
from harness import Stream, until

SHORT = 4096
LONG = 1 << 17  # worth a trial of both seats
COPIED = 1 << 15  # a put of this size completes before it has arrived
ENOUGH = 4000
OPTIONS = {"rails.enable": "shm tcp", "rails.tcp_security": "plain", "limits.pairs_per_session": "1"}
SO_MAX_PACING_RATE = 47
SLOW_BYTES_PER_S = 20_000_000
LIMIT = "limits.pairs_per_session"


class Rising(harness.Case):
    def three(self, nodes=(0, 1, 1), options=None, **environment):
        """Two processes that put to each other, and a third one, to which one of them has the only connection that it may have:
        the first, unless nodes says otherwise."""
        cluster = self.cluster(2, options={**OPTIONS, **(options or {})})
        actors = cluster.group(nodes, **environment)
        for slot, (one, two) in enumerate(((0, 2), (1, 2))):
            if nodes[one] != nodes[two]:
                source, target = actors[one].alloc(64), actors[two].alloc(64)
                actors[one].run(actors[one].plan(f"put {source} 0 64 {actors[two].handle(target)} 0 64", name="occupies", seat="client"), -1)
        return cluster, actors

    @staticmethod
    def explained(node, name="stream"):
        plan, = (plan["id"] for plan in node.plans() if plan["name"] == name)
        return node.tcactl("plan", plan)["chains"][0]

    def pair_of(self, chain):
        return next(each for each in chain["candidates"] if each["seat"] == "client" and each["rail"] == "tcp:lo")

    def waits(self, node, why, name="stream"):
        chain = self.explained(node, name)
        self.assertEqual((chain["seat"], chain["wanted_seat"]), ("daemon", "client"))
        self.assertEqual((self.pair_of(chain)["possible"], self.pair_of(chain)["chosen"]), (False, False))
        self.assertIn(why, self.pair_of(chain)["why"])

    def has_risen(self, node, name="stream"):
        chain = self.explained(node, name)
        return (chain["seat"], chain["wanted_seat"], self.pair_of(chain)["chosen"]) == ("client", "client", True)

    def test_a_pair_becomes_free(self):
        """At the sender's limit, at the receiver's; while starts follow each other."""
        for nodes in ((0, 1, 1), (0, 1, 0)):
            for size in (SHORT, LONG):
                with self.subTest(nodes=nodes, size=size):
                    cluster, (sender, receiver, third) = self.three(nodes, TCA_TUNE="off")
                    stream = Stream(sender, receiver, shape=str(size), ack_seat="daemon")
                    self.assertEqual(stream.run(3), 3)
                    self.assertEqual(sender.receipt(stream.plan)["seat"], "daemon")
                    self.waits(cluster[0], LIMIT)
                    stream.begin()
                    time.sleep(0.3)
                    self.waits(cluster[0], LIMIT)
                    third.kill()
                    until(lambda: self.has_risen(cluster[0]), "it has moved up")
                    self.assertGreater(stream.finish(), 3)
                    self.assertEqual(stream.run(100), 100)
                    receipt = sender.receipt(stream.plan)
                    self.assertEqual((receipt["seat"], receipt["trying"], receipt["bytes"]), ("client", 0, size))
                    plan, = (plan for plan in cluster[0].plans() if plan["name"] == "stream")
                    self.assertEqual((plan["seat"], plan["starts"]), ("client", receipt["starts"]))

    def test_the_pair_was_given_up(self):
        """A plan that was tried in tcad's seat when its connection was lost for good moves up to the next one."""
        cluster, (sender, receiver, _) = self.three(options={"limits.pairs_per_session": "8"})
        stream = Stream(sender, receiver, shape=str(LONG), ack_seat="daemon")
        for turn in range(harness.rounds(3)):
            with self.subTest(turn=turn):
                until(lambda: stream.run(10) and sender.receipt(stream.plan)["seat"] == "daemon", "it tries tcad's seat")
                self.assertEqual(sender.receipt(stream.plan)["trying"], 1)
                for each in self.own_connections(receiver):
                    garble(each)
                until(lambda: stream.run(1) and self.explained(cluster[0])["wanted_seat"] == "client"
                      and sender.receipt(stream.plan)["seat"] == "client", "it has moved up")

    @staticmethod
    def own_connections(actor):
        for each in sockets_of(actor.pid):
            if each.family == socket.AF_INET and each.type == socket.SOCK_STREAM:
                yield each

    def test_starts_stay_in_order(self):
        """Nobody answers, and the slow connections of tcad hold data of starts that are complete, because puts of this size are copied:
        the last one is there last, and each arrives once."""
        cluster, (sender, receiver, third) = self.three()
        source, target = sender.alloc(LONG), receiver.alloc(LONG)
        handle = receiver.handle(target)
        plan = sender.plan(*(f"put {source} {at} {COPIED} {handle} {at} {COPIED}" for at in range(0, LONG, COPIED)), "notify 1 0", name="stream")
        sender.run(plan, -1)
        receiver.ask("notified_wait 0 0 -1")
        ports = {rail_port(node, "tcp") for node in cluster.nodes}
        for each in itertools.chain.from_iterable(connections_of(node, ports) for node in cluster.nodes):
            each.setsockopt(socket.SOL_SOCKET, SO_MAX_PACING_RATE, SLOW_BYTES_PER_S)
        third.kill()
        seats = []
        for number in range(ENOUGH):
            sender.ask(f"fill {source} 0 {LONG} {number % 250}")
            sender.run(plan, -1)
            seats.append(sender.receipt(plan)["seat"])
            if seats[-1] == "client":  # in flight before it: those of the slow connection
                break
        self.assertEqual((set(seats[:-1]), seats[-1]), ({"daemon"}, "client"))
        for _ in seats:
            receiver.ask("notified_wait 0 0 -1")
        receiver.ask(f"check {target} 0 {LONG} {(len(seats) - 1) % 250}")
        self.assertEqual(receiver.ask("count 0 0"), ["0"])

    def test_plans_stay_in_order(self):
        """A plan waits in tcad's seat, whose connections are slow, and moves up, while another of its channel is over the connection of
        the two processes: the last start is there last."""
        cluster, (sender, receiver, third) = self.three()
        sources, target = [sender.alloc(LONG) for _ in range(2)], receiver.alloc(LONG)
        puts = [[f"put {source} {at} {COPIED} {receiver.handle(target)} {at} {COPIED}" for at in range(0, LONG, COPIED)] for source in sources]
        plans = [sender.plan(*puts[0], "notify 1 0", name="stream")]
        sender.run(plans[0], -1)
        receiver.ask("notified_wait 0 0 -1")
        self.waits(cluster[0], LIMIT)
        ports = {rail_port(node, "tcp") for node in cluster.nodes}
        for each in itertools.chain.from_iterable(connections_of(node, ports) for node in cluster.nodes):
            each.setsockopt(socket.SOL_SOCKET, SO_MAX_PACING_RATE, SLOW_BYTES_PER_S)
        third.kill()

        def makes_it():
            with contextlib.suppress(Failed):
                return sender.plan(*puts[1], "notify 1 0", seat="client")

        plans.append(until(makes_it, "the connection of the third one has ended"))
        seats = []
        while seats.count("client") < 4:
            number = len(seats)
            self.assertLess(number, ENOUGH)
            for plan, source in list(zip(plans, sources))[::1 if number % 3 else -1]:
                sender.ask(f"fill {source} 0 {LONG} {2 * number % 250 + plans.index(plan)}")
                sender.ask(f"start {plan}")
            for plan in plans:
                sender.ask(f"wait {plan} -1")
            for _ in plans:
                receiver.ask("notified_wait 0 0 -1")
            receiver.ask(f"check {target} 0 {LONG} {2 * number % 250 + (number % 3 > 0)}")
            seats.append(sender.receipt(plans[0])["seat"])
        self.assertEqual(seats[0], "daemon")

    def test_a_later_plan_makes_it(self):
        """Another plan of the two processes, or the plan itself, makes the connection for all."""
        cluster, (sender, receiver, third) = self.three()
        small, long = Stream(sender, receiver, shape=str(SHORT), ack_seat="daemon"), sender.alloc(1 << 20)
        target = receiver.alloc(1 << 20)
        # more puts than fit into one message, in two chains
        half = [[f"put {long} {at} 512 {receiver.handle(target)} {at} 512" for at in range(first, first + (1 << 19), 1024)]
                for first in (0, 1 << 19)]
        plan = sender.plan(*half[0], "chain", *half[1], "notify 1 7", name="many")
        receiver.alloc(64)  # it has heard of landings over a connection that was refused
        for name in ("stream", "many"):
            self.waits(cluster[0], LIMIT, name)
        third.kill()
        until(lambda: cluster[0].sessions()[0]["pairs"] == 0, "its connection has ended")
        later, *_ = sender.put_plan(receiver, "64", "notify 1 1", name="later", seat="client")
        sender.run(later, -1)
        for seed in range(ENOUGH):
            sender.ask(f"fill {long} 0 {1 << 20} {seed % 250}")
            sender.run(plan, -1)
            receiver.ask("notified_wait 0 7 -1")
            for at in (0, (1 << 19) - 1024, 1 << 19, (1 << 20) - 1024):
                self.assertEqual(receiver.ask(f"read {target} {at} 512"), sender.ask(f"read {long} {at} 512"))
            self.assertEqual(small.run(2), 2)
            if self.has_risen(cluster[0]) and self.has_risen(cluster[0], "many") and sender.receipt(plan)["seat"] == "client":
                break
        self.assertEqual(sender.receipt(plan)["bytes"], 1 << 19)
        self.assertEqual([session["pairs"] for session in cluster[0].sessions() if session["rank"] == 0], [1])

    def test_what_stays(self):
        """Who asked for tcad's seat, what only tcad can do, and plans that nobody starts, until somebody does."""
        cluster, (sender, receiver, third) = self.three()
        idle = Stream(sender, receiver, slot=1, ack_seat="daemon")
        streams = [Stream(sender, receiver, seat="daemon", slot=2, ack_seat="daemon")]
        flushes = sender.plan(f"put {streams[0].source} 0 64 {receiver.handle(streams[0].target)} 0 64", "flush", "notify 1 3")
        third.kill()
        probe = Stream(sender, receiver, slot=5, seat="client", ack_seat="daemon")  # there is a connection now
        for _ in range(10):
            time.sleep(0.05)
            sender.run(flushes)
            self.assertEqual([each.run(3) for each in (*streams, probe)], [3] * 2)
        self.assertEqual([sender.receipt(plan)["seat"] for plan in (streams[0].plan, flushes)], ["daemon"] * 2)
        waiting, = (plan["id"] for plan in cluster[0].plans() if plan["name"] == "stream" and plan["starts"] == 0)
        self.assertIn(LIMIT, self.pair_of(cluster[0].tcactl("plan", waiting)["chains"][0])["why"])
        until(lambda: idle.run(1) and sender.receipt(idle.plan)["seat"] == "client", "it moves up when it is started")

    @staticmethod
    def is_broken(sender, plan, errors):
        try:
            sender.run(plan, -1)
        except Failed as failed:
            return failed.name in errors
        return False

    def test_ends(self):
        """Of the receiver, its daemon, the sender and its plan, while it moves up."""
        for victim, errors in (("receiver", ("-EOWNERDEAD",)), ("its daemon", ("-EHOSTDOWN",)), ("sender", ()), ("plan", ())):
            for turn in range(harness.rounds(4)):
                with self.subTest(victim=victim, turn=turn):
                    cluster, (sender, receiver, third) = self.three()
                    stream = Stream(sender, receiver, shape=str(LONG), ack_seat="daemon")
                    self.assertEqual(stream.run(3), 3)
                    if victim == "plan":
                        third.kill()
                        for _ in range(random.randrange(1, 60)):
                            self.assertEqual(stream.run(1), 1)
                        sender.ask(f"start {stream.plan}")
                        sender.ask(f"freeplan {stream.plan}")
                        receiver.ask("notified_wait 0 0 -1")
                        until(lambda: not [plan for plan in cluster[0].plans() if plan["name"] == "stream"], "it is released")
                        continue
                    stream.begin()
                    third.kill()
                    time.sleep(random.random() * 0.25)
                    if victim == "sender":
                        sender.kill()
                        with self.refused("-EOWNERDEAD"):
                            receiver.answer()
                        until(lambda: not cluster[0].sessions(), "its daemon has dropped it")
                        until(lambda: cluster[1].tcactl("status")["daemon"]["pid"], "the other one is well")
                        continue
                    (receiver if victim == "receiver" else cluster[1]).kill()
                    with self.assertRaises(Failed) as caught:
                        sender.answer()
                    self.assertIn(caught.exception.name, errors)
                    until(lambda s=sender, p=stream.plan: self.is_broken(s, p, errors), "the sender hears of it")

    def test_the_receiver_is_stopped(self):
        """While it moves up: all starts arrive when it goes on."""
        cluster, (sender, receiver, third) = self.three()
        plan, source, target = sender.put_plan(receiver, str(LONG), "notify 1 0", region_bytes=LONG, name="stream")
        third.kill()
        for number in range(ENOUGH):
            sender.ask(f"fill {source} 0 {LONG} {number}")
            if number < 100:
                harness.stop(receiver.pid)
            sender.ask(f"start {plan}")
            with contextlib.suppress(Failed):
                sender.ask(f"wait {plan} 30")
            os.kill(receiver.pid, signal.SIGCONT)
            sender.ask(f"wait {plan} -1")
            receiver.ask("notified_wait 0 0 -1")
            receiver.ask(f"check {target} 0 {LONG} {number}")
            self.assertEqual(receiver.ask("count 0 0"), ["0"])
            if sender.receipt(plan)["seat"] == "client":
                break
        self.assertEqual(sender.receipt(plan)["seat"], "client")


if __name__ == "__main__":
    harness.main()
