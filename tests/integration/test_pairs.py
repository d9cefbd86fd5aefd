#!/usr/bin/env python3
"""The client's seat between nodes: processes put over connections of their own, which their daemons have made."""

import os
import shutil
import signal
import socket
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

import harness
from connections import finish, garble, listeners_of, rail_port, reset, sockets_of
from harness import Failed, Stream, until

SHAPES = ["8", "4096", "65536", "700000", "256x8x24", "2000x40x48", "100x6000x6100"]


def end_all(actor, end):
    """The number of the process's connections to other nodes."""
    count = 0
    for own in sockets_of(actor.process.pid):
        if own.family == socket.AF_INET:
            try:
                end(own)
            except OSError:  # it has ended already
                continue
            count += 1
    return count


class OverARail:
    """What is the same over each rail."""

    rail, securities = "tcp", ("plain", "tls")
    full_bytes = 16 << 20  # more than sockets hold
    sleeps = 200

    @property
    def client(self):
        return {"rail": self.rail, "seat": "client", "ack_seat": "client", "ack_rail": self.rail}

    @property
    def long(self):
        return {"shape": "700000", "region_bytes": 1 << 20, **self.client}

    @staticmethod
    def kernel_tls(node):
        """Whether this kernel encrypts: only its first network namespace says so in /proc."""
        return any("by the kernel" in rail["detail"] for rail in node.tcactl("status")["rails"])

    def pair(self, security="plain"):
        return self.cluster(2, options={"rails.enable": f"shm {self.rail}", "rails.tcp_security": security})

    def test_every_shape(self):
        for security in self.securities:
            cluster = self.pair(security)
            for shape in SHAPES:
                with self.subTest(security=security, shape=shape):
                    stream = Stream(*cluster.group([0, 1], name=shape), shape=shape, region_bytes=2 << 20, **self.client)
                    self.assertEqual(stream.run(5), 5)
                    receipt = stream.sender.receipt(stream.plan)
                    self.assertEqual((receipt["rail"], receipt["seat"]), (self.rail, "client"))
                    cluster.kill_actors([stream.sender, stream.receiver])
            self.assertEqual(self.starts_of_engines(cluster), 0)

    def test_explained(self):
        """tcactl plan explain names the connection, until the other process has ended."""
        for security in self.securities:
            cluster = self.pair(security)
            cluster.actor(1).ask("open - 0 1 -2")  # takes a number: the sessions of the two differ in it
            sender, receiver = cluster.group([0, 1])
            source = sender.alloc(4096)
            target = receiver.alloc(4096)
            handle = receiver.handle(target)
            plan = sender.plan(f"put {source} 0 8 {handle} 0 8", "notify 1 2", "notify 1 3", rail=self.rail, seat="client")
            receiver.tell("notified_wait 0 3 -2")
            sender.ask(f"start {plan}")
            sender.ask(f"wait {plan} -2")
            receiver.answer()
            node = cluster[0]
            row, = node.plans()
            other = max(session["id"] for session in cluster[1].tcactl("sessions")["sessions"])
            steps = node.tcactl("plan", row["id"])["chains"][0]["steps"]
            each, text = (900000, "879 KiB") if row["driver"] == "tcp" and security == "plain" else (1200000, "1.14 MiB")
            expected = {"node": 1, "ended": False, "session": other, "rail": row["rail"],
                        "encrypted": security == "tls", "kernel_tls": security == "tls" and self.kernel_tls(node), "bytes": each}
            self.assertEqual([step["pair"] for step in steps], [expected] * len(steps))
            candidates = {(each["rail"], each["seat"]): each for each in node.tcactl("plan", row["id"])["chains"][0]["candidates"]}
            self.assertEqual([route for route, each in candidates.items() if each["chosen"]], [(row["rail"], "client")])
            self.assertEqual(candidates[row["rail"], "daemon"]["why"], "another seat was requested")
            self.assertTrue(all(each["why"] for each in candidates.values()))
            said = "in clear" if security == "plain" else "encrypted by the kernel" if self.kernel_tls(node) else "encrypted"
            self.assertEqual(sender.receipt(plan)["encryption"], "tls" if security == "tls" else "none")
            listed, = (row["encryption"] for row in node.tcactl("nodes")["nodes"] if row["id"] == 1)
            self.assertIn({"rail": row["rail"], "seat": "client", "encryption": "tls" if security == "tls" else "none", "connections": 1},
                          listed)
            self.assertIn(f"over a connection of the two processes to session {other} of node 1: rail {row['rail']}, {said}; up to {text} in each\n",
                          node.tcactl_raw("plan", row["id"]).stdout)
            cluster.kill_actors([receiver])
            until(lambda node=node, row=row: node.tcactl("plan", row["id"])["chains"][0]["steps"][0]["pair"]["ended"], "it has ended")
            self.assertIn("which has ended\n", node.tcactl_raw("plan", row["id"]).stdout)

    def test_more_puts_than_messages_may_wait(self):
        """The receiver is told of the landings of many puts at once, and that they are gone: as fast as it reads, and it is not
        dropped when it computes."""
        cluster = self.pair()
        sender, receiver = cluster.group([0, 1])
        source = sender.alloc(1 << 20)
        target = receiver.alloc(1 << 20)
        handle = receiver.handle(target)
        puts = [f"put {source} {16 * i} 16 {handle} {16 * i} 16" for i in range(3000)]
        harness.stop(receiver.process.pid)
        sender.plan(*puts, "notify 1 2", seat="client", rail=self.rail)
        with self.assertRaisesRegex(Failed, "-EBUSY.*has not read"):
            for _ in range(2000):
                sender.plan(puts[0], seat="client", rail=self.rail)
        receiver.process.send_signal(signal.SIGCONT)
        for _ in range(3):
            receiver.tell("notified_wait 0 2 -1")
            plan = sender.plan(*puts, "notify 1 2", seat="client", rail=self.rail)
            sender.ask(f"start {plan}")
            sender.ask(f"wait {plan} -1")
            receiver.answer()
            sender.ask(f"freeplan {plan}")
            receiver.ask("sleep 300")  # outside of the library
        receiver.ask("count 0 2")

    @staticmethod
    def has_received(receiver, target):
        """Of another group: nothing notifies it, but it has to call the library."""
        try:
            receiver.ask("notified_wait 0 0 20")
        except Failed:
            pass
        try:
            receiver.ask(f"same {target} 0 4096 7")
        except Failed:
            return False
        return True

    def test_a_node_that_was_not_contacted(self):
        """The processes are in different groups, and their daemons have not spoken to each other; or the other daemon is stopped."""
        for stopped in (False, True):
            with self.subTest(stopped=stopped):
                cluster = self.pair()
                sender, receiver = (cluster.actor(node) for node in range(2))
                for actor in (sender, receiver):
                    actor.ask("open - 0 1 -2")
                source = sender.alloc(4096)
                target = receiver.alloc(4096)
                sender.ask(f"set {source} 0 4096 7")
                sender.ask(f"plan plan {self.rail} client 0")
                sender.ask(f"put 0 {source} 0 4096 {receiver.handle(target)} 0 4096")
                if stopped:
                    cluster[1].pause()
                sender.tell("commit 0 -2")
                if stopped:
                    time.sleep(0.3)
                    cluster[1].resume()
                sender.answer()
                sender.ask("start 0")
                sender.tell("wait 0 -1")
                until(lambda receiver=receiver, target=target: self.has_received(receiver, target), "the data arrives")
                sender.answer()

    def test_asleep(self):
        """Processes that sleep in every wait are woken by their connections, by neighbours and by tcad."""
        cluster = self.pair()
        asleep = {"TCA_SPIN": "0", "TCA_YIELD": "0"}
        streams = [Stream(*cluster.group([0, 1], name=f"job{number}", **asleep), seat=seat, ack_seat=ack, shape=shape)
                   for number, (seat, ack, shape) in enumerate((("client", "client", "8"), ("client", "daemon", "65536"),
                                                                ("daemon", "client", "700000")))]
        for stream in streams:
            stream.begin(self.sleeps)
        for stream in streams:
            self.assertEqual(stream.finish(), self.sleeps)

    @staticmethod
    def samples(node, name):
        return [sample for family in node.tcactl("stats")["families"] if family["name"] == name for sample in family["samples"]]

    def bound_bytes(self, node):
        return sum(sample["value"] for sample in self.samples(node, "tcad_user_bytes") if sample["labels"]["kind"] == "bindings")

    def starts_of_engines(self, cluster):
        return sum(sample["value"] for node in cluster.nodes for sample in self.samples(node, "tcad_engine_starts"))

    def test_a_plan_after_the_other(self):
        """Landings are made and released, one connection stays; the puts of a released plan have arrived."""
        cluster = self.pair()
        sender, receiver = cluster.group([0, 1])
        source = sender.alloc(4096)
        target = receiver.alloc(4096)
        for number in range(20):
            sender.ask(f"set {source} 0 4096 {number}")
            plan = sender.plan(f"put {source} 0 4096 {receiver.handle(target)} 0 4096", "notify 1 0", rail=self.rail, seat="client")
            sender.ask(f"start {plan}")
            sender.tell(f"freeplan {plan}")
            receiver.ask("notified_wait 0 0 -1")
            sender.answer()
            self.assertEqual(bytes.fromhex(receiver.ask(f"read {target} 0 4096")[0]), bytes([number]) * 4096)
        self.assertEqual(self.connections(sender), 1)

    def connections(self, actor):
        return sum(own.family == socket.AF_INET for own in sockets_of(actor.process.pid))

    def both_ways(self, actors, size):
        """A plan of each for the other, not committed."""
        regions = [actor.alloc(2 * size) for actor in actors]
        handles = [actor.handle(region) for actor, region in zip(actors, regions)]
        plans = [int(actor.ask(f"plan both {self.rail} client 0")[0]) for actor in actors]
        for own, (actor, plan) in enumerate(zip(actors, plans)):
            actor.ask(f"fill {regions[own]} 0 {size} {own}")
            actor.ask(f"put {plan} {regions[own]} 0 {size} {handles[1 - own]} {size} {size}")
            actor.ask(f"notify {plan} {1 - own} 0")
        return plans, regions

    def exchange(self, actors, plans, regions, size):
        for actor, plan in zip(actors, plans):
            actor.ask(f"start {plan}")
        for own, (actor, plan) in enumerate(zip(actors, plans)):  # in its waits each moves both directions
            actor.tell(f"wait {plan} -1")
            actor.tell(f"notified_wait {1 - own} 0 -1")
        for actor in actors:
            actor.answer()
            actor.answer()
        for own, actor in enumerate(actors):
            actor.ask(f"check {regions[own]} {size} {size} {1 - own}")
            self.assertEqual(self.connections(actor), 1)

    def test_both_ask(self):
        """Processes that commit plans to each other at the same time settle on one connection."""
        cluster = self.pair()
        for turn in range(harness.rounds(8)):
            actors = cluster.group([0, 1], name=f"job{turn}")
            plans, regions = self.both_ways(actors, 4096)
            for node in cluster.nodes:
                node.pause()
            for actor, plan in zip(actors, plans):
                actor.tell(f"commit {plan} -1")
            for node in cluster.nodes[::1 if turn % 2 else -1]:
                node.resume()
            for actor in actors:
                actor.answer()
            self.exchange(actors, plans, regions, 4096)
            cluster.kill_actors(actors)

    def test_full_both_ways(self):
        """Puts that are longer than what the rail takes at a time, both ways at once."""
        size = self.full_bytes
        for security in self.securities:
            with self.subTest(security=security):
                actors = self.pair(security).group([0, 1])
                plans, regions = self.both_ways(actors, size)
                for actor, plan in zip(actors, plans):
                    actor.ask(f"commit {plan} -1")
                for _ in range(3):
                    self.exchange(actors, plans, regions, size)

    def test_landed(self):
        """Remote completion of several puts; only another plan notifies."""
        for security in self.securities:
            with self.subTest(security=security):
                sender, receiver = self.pair(security).group([0, 1])
                source = sender.alloc(1 << 20)
                target = receiver.alloc(1 << 20)
                handle = receiver.handle(target)
                plan = sender.plan(f"put {source} 0 700000 {handle} 0 700000", f"put {source} 0 8 {handle} 800000 8", rail=self.rail, seat="client", landed=True)
                over = sender.plan("notify 1 0", seat="client", rail=self.rail)
                receiver.tell("notified_wait 0 0 -1")
                sender.ask(f"set {source} 0 700000 7")
                for number in (plan, over):
                    sender.ask(f"start {number}")
                    sender.ask(f"wait {number} -1")
                receiver.answer()
                for offset, length in ((0, 700000), (800000, 8)):
                    data = "".join(receiver.ask(f"read {target} {offset + at} {min(4096, length - at)}")[0] for at in range(0, length, 4096))
                    self.assertEqual(bytes.fromhex(data), bytes([7]) * length)

    def test_killed(self):
        """Killed in the middle, as the sender and as the receiver; another pair does not notice."""
        cluster = self.pair()
        bystander = Stream(*cluster.group([0, 1], name="bystander"), **self.client)
        bystander.begin(bystander=True)
        before = [node.counts() for node in cluster.nodes]
        for turn in range(3):
            for role in ("sender", "receiver"):
                with self.subTest(turn=turn, role=role):
                    stream = Stream(*cluster.group([0, 1], name="doomed"), **self.long)
                    stream.begin()
                    time.sleep(0.02 * turn)
                    victim, survivor = (stream.sender, stream.receiver) if role == "sender" else (stream.receiver, stream.sender)
                    victim.kill()
                    with self.refused("-EOWNERDEAD"):
                        survivor.answer()
                    with self.refused("-EOWNERDEAD"):
                        survivor.ask(f"start {stream.plan if role == 'receiver' else stream.ack}")
                    cluster.kill_actors([survivor])
                    until(lambda: [node.counts() for node in cluster.nodes] == before, "all is freed")
        self.assertGreater(bystander.finish(), 0)

    def test_a_daemon_is_killed(self):
        for victim in (0, 1):
            with self.subTest(victim=victim):
                cluster = self.pair()
                stream = Stream(*cluster.group([0, 1]), **self.long)
                stream.begin()
                time.sleep(0.05)
                cluster[victim].kill()
                for actor in (stream.sender, stream.receiver):
                    with self.refused("-EHOSTDOWN"):
                        actor.answer()

    def test_a_receiver_that_does_not_look(self):
        """The start waits for it, and the data arrives once."""
        cluster = self.pair()
        sender, receiver = cluster.group([0, 1])
        size = self.full_bytes // 2
        source = sender.alloc(size)
        target = receiver.alloc(size)
        plan = sender.plan(f"put {source} 0 {size} {receiver.handle(target)} 0 {size}", "notify 1 0", rail=self.rail, seat="client")
        harness.stop(receiver.process.pid)
        sender.ask(f"start {plan}")
        with self.refused("-ETIMEDOUT", "has not copied its part"):
            sender.ask(f"wait {plan} 300")
        receiver.process.send_signal(signal.SIGCONT)
        receiver.tell("notified_wait 0 0 -1")
        sender.ask(f"wait {plan} -1")
        receiver.answer()
        with self.refused("-ETIMEDOUT"):
            receiver.ask("notified_wait 0 0 100")

    def test_the_sender_goes(self):
        """The daemon's seat does not wait for a busy receiver, and its data is there."""
        cluster = self.pair()
        for end in ("freeplan", "close"):
            with self.subTest(end=end):
                sender, receiver = cluster.group([0, 1], name=end, TCA_TIMEOUT="1000s")
                source = sender.alloc(4096)
                target = receiver.alloc(4096)
                plan = sender.plan(f"put {source} 0 4096 {receiver.handle(target)} 0 4096", "notify 1 0", rail=self.rail, seat="client")
                receiver.tell("notified_wait 0 0 -1")
                sender.ask(f"start {plan}")
                sender.ask(f"wait {plan} -1")
                receiver.answer()  # both have opened the connection
                sender.ask(f"start {plan}")
                receiver.ask("notified_wait 0 0 -1")  # a start writes, whatever its process does next
                sender.ask(f"wait {plan} -1")
                harness.stop(receiver.process.pid)
                for number in range(1, 10):
                    sender.ask(f"set {source} 0 4096 {number}")
                    sender.ask(f"start {plan}")
                    sender.ask(f"wait {plan} -1")
                sender.ask(f"freeplan {plan}" if end == "freeplan" else "close")
                until(lambda: self.bound_bytes(cluster[1]) == 0, "the receiver is told that the landing has ended")
                receiver.process.send_signal(signal.SIGCONT)
                receiver.ask("alloc 4096")  # it hears that first
                for _ in range(9):
                    receiver.ask("notified_wait 0 0 -1")
                self.assertEqual(bytes.fromhex(receiver.ask(f"read {target} 0 4096")[0]), bytes([9]) * 4096)

    def test_freed_memory(self):
        cluster = self.pair()
        stream = Stream(*cluster.group([0, 1]), **self.long)
        self.assertEqual(stream.run(3), 3)
        stream.receiver.ask(f"free {stream.target}")
        stream.receiver.tell("notified_wait 0 5 -1")  # it looks
        with self.refused("-ESTALE"):
            until(lambda: not stream.sender.ask(f"start {stream.plan}") or not stream.sender.ask(f"wait {stream.plan} -2"), "it fails")


class Pairs(OverARail, harness.Case):
    def test_one_connection(self):
        """What two processes put to each other goes over one."""
        for security in ("plain", "tls"):
            with self.subTest(security=security):
                cluster = self.pair(security)
                stream = Stream(*cluster.group([0, 1]), **self.long)
                self.assertEqual(stream.run(5), 5)
                for actor in (stream.sender, stream.receiver):
                    self.assertEqual(self.connections(actor), 1)
                for node in cluster.nodes:
                    self.assertEqual([session["pairs"] for session in node.tcactl("sessions")["sessions"]], [1])

    def test_its_memory(self):
        for security, each in (("plain", 900000), ("tls", 1200000)):
            with self.subTest(security=security):
                cluster = self.pair(security)
                sender, *receivers = cluster.group([0, 1, 1])
                for receiver in receivers:
                    plan, *_ = sender.put_plan(receiver, "64", seat="client", name="one")
                    sender.run(plan, -1)
                until(lambda c=cluster: {plan["state"] for plan in c[0].plans()} == {"ready"}, "they are there")
                for plan in cluster[0].plans():
                    step, = cluster[0].tcactl("plan", plan["id"])["chains"][0]["steps"]
                    self.assertEqual(step["pair"]["bytes"], each)
                session, = cluster[0].tcactl("sessions")["sessions"]
                self.assertEqual((session["pairs"], session["pair_bytes"]), (2, 2 * each))
                self.assertEqual({(other["pairs"], other["pair_bytes"]) for other in cluster[1].tcactl("sessions")["sessions"]}, {(1, each)})

    def test_many_puts_at_the_limit(self):
        """More than one message can bind, when the first one is answered by giving up the connection."""
        cluster = self.cluster(2, options={"rails.enable": "shm tcp", "rails.tcp_security": "plain", "limits.pairs_per_session": "1"})
        sender, receiver, other = cluster.group([0, 1, 1])
        first, *_ = sender.put_plan(other, "64", seat="client")
        sender.run(first, -1)
        source, target = sender.alloc(1 << 20), receiver.alloc(1 << 20)
        handle = receiver.handle(target)
        for _ in range(harness.rounds(3)):
            plan = sender.plan(*(f"put {source} {at} 256 {handle} {at} 256" for at in range(0, 1 << 20, 512)), "notify 1 0")
            receiver.alloc(64)  # it goes on after the events
            sender.run(plan, -1)
            receiver.ask("notified_wait 0 0 -1")
            self.assertEqual(sender.receipt(plan)["seat"], "daemon")
            sender.ask(f"freeplan {plan}")

    def test_the_least_used_makes_room(self):
        """For processes that have put to more others than they may have connections to, or were put to by more; one that a plan uses stays."""
        cluster = self.cluster(2, options={"rails.enable": "shm tcp", "rails.tcp_security": "plain", "limits.pairs_per_session": "2"})
        for nodes in ((0, 1, 1, 1), (1, 0, 0, 0)):
            with self.subTest(nodes=nodes):
                one, *others = cluster.group(nodes)
                sizes, seed = ("64", "200000"), 0

                def put(other, free=True, seat="client"):
                    nonlocal seed
                    seed += 1
                    # from the one, or to it
                    sender, receiver = (one, other) if nodes[0] == 0 else (other, one)
                    rank = 0 if receiver is one else others.index(other) + 1
                    size = sizes[seed % 2]
                    source, target = sender.alloc(int(size)), receiver.alloc(int(size))
                    sender.ask(f"fill {source} 0 {size} {seed}")
                    plan = sender.plan(f"put {source} 0 {size} {receiver.handle(target)} 0 {size}", f"notify {rank} 0", seat=seat)
                    sender.run(plan, -1)
                    receiver.ask(f"notified_wait {0 if receiver is not one else others.index(other) + 1} 0 -1")
                    receiver.ask(f"check {target} 0 {size} {seed}")
                    found = sender.receipt(plan)["seat"]
                    if free:
                        sender.ask(f"freeplan {plan}")
                    return found

                def connected():
                    counts = {each["pid"]: each["pairs"] for node in cluster.nodes for each in node.tcactl("sessions")["sessions"]}
                    return [counts[actor.pid] for actor in (one, *others)]

                for other in (0, 1, 0):
                    put(others[other])
                self.assertEqual(connected(), [2, 1, 1, 0])
                put(others[2])
                self.assertEqual(connected(), [2, 1, 0, 1])
                for other in [0, 1, 2] * harness.rounds(3):
                    put(others[other])
                put(others[0], free=False)
                put(others[1], free=False)
                self.assertEqual(connected(), [2, 1, 1, 0])
                self.assertEqual(put(others[2], seat="any"), "daemon")
                self.assertEqual(connected(), [2, 1, 1, 0])
                for actor in (one, *others):
                    actor.ask("close")

    def put_until_lost(self, sender, plan):
        with self.refused("-ENETDOWN"):
            until(lambda: not sender.ask(f"start {plan}") or not sender.ask(f"wait {plan} -1"), "it fails")

    def test_garbage(self):
        """The connection carries garbage: the pair's plans fail, others do not notice, and later plans get another pair."""
        cluster = self.pair()
        bystander = Stream(*cluster.group([0, 1], name="bystander"), **self.client)
        bystander.begin(bystander=True)
        stream = Stream(*cluster.group([0, 1]), **self.long)
        self.assertEqual(stream.run(3), 3)
        stream.receiver.tell("notified_wait 0 5 3000")
        end_all(stream.sender, garble)
        self.put_until_lost(stream.sender, stream.plan)
        self.put_until_lost(stream.sender, stream.plan)  # a start that itself noticed it may be followed by one whose wait fails
        self.assertGreater(bystander.finish(), 0)
        with self.refused("-ETIMEDOUT"):
            stream.receiver.answer()
        again = Stream(stream.sender, stream.receiver, slot=1, **self.long)
        self.assertEqual(again.run(3), 3)

    def test_a_connection_breaks(self):
        """It is reset or closed, at either end or at both, again and again in the middle of transfers: the processes get another one,
        and each transfer arrives once."""
        for security in ("plain", "tls"):
            for end in (reset, finish):
                with self.subTest(security=security, end=end.__name__):
                    stream = Stream(*self.pair(security).group([0, 1]), **self.long)
                    stream.begin()
                    for turn in range(harness.rounds(12)):
                        time.sleep(0.1)
                        ends = ((stream.sender,), (stream.receiver,), (stream.sender, stream.receiver))[turn % 3]
                        until(lambda all=ends: sum(end_all(actor, end) for actor in all) > 0, "there is a connection to break")
                    self.assertGreater(stream.finish(), 0)
                    for actor in (stream.sender, stream.receiver):  # the last one may have broken after all transfers
                        until(lambda each=actor: self.connections(each) == 1, "there is one connection again")

    def test_a_connection_breaks_between_starts(self):
        """And while one of the daemons is stopped."""
        cluster = self.pair()
        stream = Stream(*cluster.group([0, 1]), **self.long)
        for turn in range(harness.rounds(4)):
            self.assertEqual(stream.run(3), 3)
            cluster[turn % 2].pause()
            end_all((stream.sender, stream.receiver)[turn // 2 % 2], reset)
            time.sleep(0.3)
            cluster[turn % 2].resume()

    def dial_refused(self):
        """node1 has bound a plan and is stopped before node0 dials: nobody listens at its rail any more. Returns the cluster and the
        sender's start, which waits for the connection."""
        cluster = self.cluster(2, fresh=True, options={"rails.enable": "shm tcp", "rails.tcp_security": "plain", "control.heartbeat_timeout": "600s"})
        sender, receiver = cluster.group([0, 1])
        source, target = sender.alloc(4096), receiver.alloc(4096)
        put = f"put {source} 0 8 {receiver.handle(target)} 0 8"
        port = rail_port(cluster[1], "tcp")
        with ThreadPoolExecutor(1) as pool:
            cluster[1].pause()
            plan = pool.submit(sender.plan, put, seat="client")
            until(lambda: cluster[0].counts()[2] == 1, "node1 has been asked")
            cluster[0].pause()
            cluster[1].resume()
            until(lambda: self.pairs_of(cluster[1]) == [1], "node1 has replied")
            cluster[1].pause()
            for door in listeners_of(cluster[1], port):
                door.shutdown(socket.SHUT_RD)
            cluster[0].resume()
            sender.ask(f"start {plan.result()}")
            sender.tell(f"wait {plan.result()} -1")
        until(lambda: "no connection to session" in cluster[0].log_text(), "node0 has dialled")
        return cluster, sender

    @staticmethod
    def pairs_of(node):
        return [session["pairs"] for session in node.tcactl("sessions")["sessions"]]

    def test_a_daemon_is_killed_while_it_is_dialled(self):
        """The pair is kept until it is known whether the node has ended."""
        for code, fate in (("-EHOSTDOWN", harness.Node.kill), ("-ENETDOWN", harness.Node.resume)):
            with self.subTest(code=code):
                cluster, sender = self.dial_refused()
                self.assertEqual(self.pairs_of(cluster[0]), [1])
                fate(cluster[1])
                with self.refused(code):
                    sender.answer()
                until(lambda: self.pairs_of(cluster[0]) == [0], "the pair has ended")

    def test_a_daemon_ends_before_it_is_known(self):
        cluster, sender = self.dial_refused()
        self.assertIsNone(cluster[0].end())
        with self.refused("-EHOSTDOWN"):
            sender.answer()

    def test_by_measured_costs(self):
        """The process puts itself unless tcad's seat is cheaper. tcactl plan explain shows what is predicted of both."""
        for own_ns, chosen in ((5000, "client"), (7000, "daemon")):
            with self.subTest(chosen=chosen), tempfile.NamedTemporaryFile("w", suffix=".cost") as file:
                file.write(harness.costs({"tcp:lo client": (own_ns, 1), "tcp:lo daemon": (6000, 1)}))
                file.flush()
                cluster = self.cluster(2, options={"rails.enable": "shm tcp", "rails.calibration": "auto", "rails.calibration_file": file.name})
                sender, receiver = cluster.group([0, 1])
                target = receiver.handle(receiver.alloc(4096))
                sender.plan(f"put {sender.alloc(4096)} 0 4096 {target} 0 4096")
                row, = cluster[0].plans()
                candidates = {each["seat"]: each for each in cluster[0].tcactl("plan", row["id"])["chains"][0]["candidates"]
                              if each["rail"] == "tcp:lo"}
                self.assertEqual({seat: each["predicted_ns"] for seat, each in candidates.items()}, {"client": own_ns + 4096, "daemon": 6000 + 4096})
                self.assertEqual([seat for seat, each in candidates.items() if each["chosen"]], [chosen])

    def test_without_the_driver(self):
        """In an installation of libtca without libtca-tcp, only these plans fail, at either end."""
        place = tempfile.mkdtemp(prefix="tca-test-")
        self.addCleanup(shutil.rmtree, place)
        shutil.copy(os.path.join(os.environ["TCA_TEST_BUILD"], "client", "libtca.so.0"), place)
        cluster = self.pair()
        sender, receiver = cluster.group([0, 1], name="neither", LD_LIBRARY_PATH=place)
        stream = Stream(sender, receiver, rail="tcp", seat="daemon", ack_seat="daemon")
        put = f"put {stream.source} 0 8 {receiver.handle(stream.target)} 0 8"
        with self.refused("-ENODEV", "libtca-tcp.so.0"):
            sender.plan(put, seat="client")
        self.assertEqual(stream.run(5), 5)

    def test_refused(self):
        cluster = self.pair()
        near, far, other = cluster.group([0, 1, 1])
        source = near.alloc(4096)
        target = far.alloc(4096)
        apart = other.alloc(4096)
        put = f"put {source} 0 8 {far.handle(target)} 0 8"
        for steps, text in (((put, "notify 2 0"), "for one process and its notification for another"),
                            ((put, f"put {source} 0 8 {other.handle(apart)} 0 8"), "to several processes"),
                            ((put, f"put {source} 8 8 {near.handle(source)} 0 8"), "several nodes")):
            with self.subTest(text=text), self.refused("-EOPNOTSUPP", text, "TCA_SEAT_DAEMON"):
                near.plan(*steps, seat="client")
        near.plan(put, seat="client")
        cluster = self.cluster(2, options={"rails.enable": "shm ofi"})
        stream = Stream(*cluster.group([0, 1]))
        with self.refused("-ENETDOWN", "only over rails of the drivers tcp and hca"):
            stream.sender.plan(f"put {stream.source} 0 8 {stream.receiver.handle(stream.target)} 0 8", seat="client")

    def test_too_late(self):
        """A reply that comes after the time-out of its request is given back, with the pair that it names, which nobody dials,
        unless another plan needs it."""
        cluster = self.pair()
        low, high = cluster.group([0, 1])
        source, target = high.alloc(4096), low.alloc(4096)
        put = f"put {source} 0 8 {low.handle(target)} 0 8"
        with ThreadPoolExecutor(1) as pool:
            for needed in (False, True):
                cluster[0].pause()
                with self.refused("-ETIMEDOUT", "node0 (id 0) has not answered in time"):
                    high.plan(put, rail="tcp", seat="client", timeout=200)
                if needed:
                    plan = pool.submit(high.plan, put, rail="tcp", seat="client")
                    until(lambda: cluster[1].counts()[2] == 1, "node0 is asked again")
                cluster[1].pause()
                cluster[0].resume()
                until(lambda: self.pairs_of(cluster[0]) == [1], "it makes a pair")
                cluster[1].resume()
                if not needed:
                    until(lambda: self.pairs_of(cluster[0]) == [0], "the pair is given back")
            high.ask(f"start {plan.result()}")
            low.tell("notified_wait 1 0 1000")  # it looks
            high.ask(f"wait {plan.result()} -1")
        self.assertEqual([self.pairs_of(node) for node in cluster.nodes], [[1], [1]])
        with self.refused("-ETIMEDOUT"):
            low.answer()

    def test_refused_beside_what_is_possible(self):
        """The node that refuses a request does not wait for a connection that the other one was not told of."""
        cluster = self.pair()
        low, high = cluster.group([0, 1])
        source, target, there = high.alloc(4096), low.alloc(4096), low.alloc(4096)
        gone = low.handle(there)
        low.ask(f"free {there}")
        with self.refused("-ESTALE", "was freed"):
            high.plan(f"put {source} 0 8 {low.handle(target)} 0 8", f"put {source} 0 8 {gone} 0 8", seat="client")
        plan, _, _ = low.put_plan(high, "4096", "notify 1 0", seat="client")
        low.run(plan)
        high.ask("notified_wait 0 0 -2")


if __name__ == "__main__":
    harness.main()
