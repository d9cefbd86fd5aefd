#!/usr/bin/env python3
"""Daemons die, stop, and come back: nothing hangs, all clients get an error, and new plans work."""

import contextlib
import ctypes
import os
import time

import harness
from harness import Failed, Stream

# A killed daemon is noticed by its connections: only the tests that stop one need heartbeats. Long enough for daemons that
# wait for a processor not to count as stopped.
HEARTBEATS = {"control.heartbeat_interval": "100ms", "control.heartbeat_timeout": f"{3 * harness.SLOW:.0f}s"}
SEIZE, INTERRUPT, DETACH, WALL = 0x4206, 0x4207, 17, 0x40000000  # ptrace(2), waitpid(2)


@contextlib.contextmanager
def stopped_thread(tid):
    """Stops one thread of a child, while the others run."""
    libc = ctypes.CDLL(None, use_errno=True)

    def trace(what):
        if libc.ptrace(ctypes.c_long(what), ctypes.c_long(tid), None, None) < 0:
            raise OSError(ctypes.get_errno(), f"ptrace({what:#x})")
    trace(SEIZE)
    trace(INTERRUPT)
    os.waitpid(tid, WALL)
    try:
        yield
    finally:
        trace(DETACH)


PATIENT = {"control.heartbeat_timeout": "600s"}


class Nodes(harness.Case):
    RAILS = "shm ofi"

    def pair(self, nodes=2, options=PATIENT):
        return self.cluster(nodes, options={**options, "control.request_timeout": f"{4 * harness.SLOW:.0f}s"})

    def down(self, node, other):
        harness.until(lambda: node.state_of(other) == "down", f"node{node.number} sees node{other.number} down")

    def connected(self, cluster):
        """A group and a stream over nodes 0 and 1, so that these are connected."""
        sender, receiver = cluster.group([0, 1])
        stream = Stream(sender, receiver)
        self.assertEqual(stream.run(3), 3)
        self.assertEqual(cluster[0].state_of(cluster[1]), "up")
        return sender, receiver, stream

    def lost(self, actor, *commands):
        for command in commands:
            with self.subTest(command=command), self.refused("-EHOSTDOWN"):
                actor.ask(command)


class Killed(Nodes):
    def test_its_own_clients(self):
        """Every request gets an error."""
        cluster = self.pair()
        sender, receiver, stream = self.connected(cluster)
        source = receiver.alloc(4096)
        spare = int(receiver.ask("plan spare any any 0")[0])
        receiver.ask(f"notify {spare} 0 0")
        cluster[1].kill()
        self.lost(receiver, "barrier -1", "allgather 00 -2", "alloc 4096", "lookup x -1", f"publish x {'00' * 64}",
                  f"commit {spare} -1", "notified_wait 0 5 -1", f"start {stream.ack}")
        receiver.ask(f"free {source}")  # it has gone with the daemon
        receiver.ask("close")
        with self.refused("-ECONNREFUSED", "tcad"):
            receiver.ask("open - 0 0 -2")

    def test_in_a_call(self):
        """Calls that wait while it dies, each in another client."""
        cluster = self.pair()
        calls = ["barrier -1", "notified_wait 0 0 -1", "lookup nothing -1", "wait 0 -1", "send 0 0 0 64 0 0 0"]
        actors = cluster.group([0] + [1] * len(calls))
        for actor, call in zip(actors[1:], calls):
            if call.startswith("wait"):
                actor.plan("await 0 1 1", seat="daemon")
                actor.ask("start 0")
            if call.startswith("send"):
                region = actor.alloc(4096)
                actor.plan(f"put {region} 0 64 {actor.handle(region)} 1024 64", "notify 0 2", seat="daemon")
            actor.tell(call)
        time.sleep(0.3)
        cluster[1].kill()
        for actor in actors[1:]:
            with self.refused("-EHOSTDOWN"):
                actor.answer()

    def test_other_nodes(self):
        """They mark it down; processes that wait for its ranks get -EHOSTDOWN, in every way of waiting."""
        cluster = self.pair()
        sender, _, stream = self.connected(cluster)
        gate = sender.plan("await 1 3 1", seat="daemon", channel=2)
        sender.ask(f"start {gate}")
        sender.tell("notified_wait 1 3 -1")
        cluster[1].kill()
        with self.refused("-EHOSTDOWN", "rank 1"):
            sender.answer()
        self.down(cluster[0], cluster[1])
        self.lost(sender, f"wait {gate} -1", f"start {gate}", f"start {stream.plan}", "notified 1 3", "barrier -1")
        target = next(node for node in cluster[0].tcactl("nodes")["nodes"] if node["id"] == 1)
        self.assertTrue(target["last_error"])
        self.assertFalse(cluster[0].tcactl("status")["cluster"]["ready"])
        self.assertEqual(cluster[0].tcactl_raw("status", "--strict").returncode, 5)
        self.assertEqual(cluster[0].tcactl_raw("status").returncode, 0)
        self.assertFalse(cluster[0].ping(cluster[1]))

    def test_a_node_that_is_shut_down(self):
        """As for a killed one: the daemon has ended, not the processes there."""
        cluster = self.pair()
        sender, _, stream = self.connected(cluster)
        gate = sender.plan("await 1 3 1", seat="daemon", channel=2)
        sender.ask(f"start {gate}")
        sender.tell("notified_wait 1 3 -1")
        cluster[1].ask_to_end()
        with self.refused("-EHOSTDOWN", "rank 1"):
            sender.answer()
        self.down(cluster[0], cluster[1])
        self.lost(sender, f"wait {gate} -1", f"start {gate}", f"start {stream.plan}", "notified 1 3", "barrier -1")

    def test_in_the_middle_of_transfers(self):
        """Again and again, in both directions; traffic between other nodes is not disturbed."""
        cluster = self.pair(3)
        bystander = Stream(*cluster.group([0, 2], name="bystander"), shape="100x1000x2000")
        bystander.begin(bystander=True)
        for turn in range(harness.rounds(3)):
            places = [0, 1] if turn % 2 else [1, 0]
            actors = cluster.group(places, name=f"turn{turn}")
            stream = Stream(*actors, shape="512x2000x2048")
            stream.begin()
            time.sleep(0.05 + 0.02 * turn)
            cluster[1].kill()
            for actor in actors:
                with self.refused("-EHOSTDOWN"):
                    actor.answer()
                actor.ask("close")
                actor.end()
            self.down(cluster[0], cluster[1])
            cluster[1].restart()
        self.assertGreater(bystander.finish(), 0)

    def test_it_comes_back(self):
        """New sessions and plans work, old handles are stale, old sessions return errors."""
        cluster = self.pair()
        sender, receiver, stream = self.connected(cluster)
        old_handle = receiver.handle(stream.target)
        incarnation = cluster[1].tcactl("status")["daemon"]["incarnation"]
        cluster[1].kill()
        self.down(cluster[0], cluster[1])
        cluster[1].restart()
        self.assertNotEqual(cluster[1].tcactl("status")["daemon"]["incarnation"], incarnation)
        harness.until(lambda: cluster[0].ping(cluster[1]), "they talk again")

        with self.refused("-ESTALE", "node 1"):
            sender.plan(f"put {stream.source} 0 64 {old_handle} 0 64")
        with self.assertRaises(Failed) as caught:
            sender.ask(f"start {stream.plan}")
        self.assertIn(caught.exception.name, ("-EHOSTDOWN", "-ESTALE"))
        self.lost(receiver, "barrier -1")
        receiver.ask("close")

        # an old session can put to a new one
        receiver.ask("open other 0 1 -2")
        region = receiver.alloc(4096)
        plan = sender.plan(f"put {stream.source} 0 64 {receiver.handle(region)} 0 64")
        sender.ask(f"fill {stream.source} 0 64 5")
        sender.run(plan)
        harness.until(lambda: self.right(receiver, region), "the data is there")
        again = Stream(*cluster.group([0, 1], name="again"))
        self.assertEqual(again.run(10), 10)
        self.assertEqual(cluster[0].state_of(cluster[1]), "up")

    @staticmethod
    def right(actor, region):
        try:
            actor.ask(f"check {region} 0 64 5")
        except Failed:
            return False
        return True

    def test_restart_unnoticed(self):
        """It is back before its peers could notice: its former ranks are lost nevertheless."""
        cluster = self.pair()
        sender, _, stream = self.connected(cluster)
        old_handle = None
        sender.tell("notified_wait 1 3 -1")
        cluster[1].restart()
        with self.refused("-EHOSTDOWN"):
            sender.answer()
        self.lost(sender, f"start {stream.plan}")
        self.assertIsNone(old_handle)
        again = Stream(*cluster.group([0, 1], name="again"))
        self.assertEqual(again.run(3), 3)

    def test_group_forgets(self):
        """The daemon that coordinates a group dies; a group of the same name can be made when it is back."""
        cluster = self.pair()
        for root in (0, 1):
            with self.subTest(root=root):
                actors = cluster.group([0, 1], name=f"job@node{root}")
                survivor = actors[1 - root]
                survivor.tell("barrier -1")
                time.sleep(0.2)
                cluster[root].kill()
                with self.refused("-EHOSTDOWN"):
                    survivor.answer()
                cluster[root].restart()
                harness.until(lambda: cluster[1 - root].ping(cluster[root]), "they talk again")
                for actor in actors:
                    actor.ask("close")
                    actor.end()
                again = Stream(*cluster.group([0, 1], name=f"job@node{root}"))
                self.assertEqual(again.run(3), 3)


class Stopped(Nodes):
    def test_heartbeats_notice(self):
        cluster = self.pair(3, HEARTBEATS)
        bystander = Stream(*cluster.group([0, 2], name="bystander"))
        sender, receiver, stream = self.connected(cluster)
        bystander.begin(bystander=True)
        sender.tell("notified_wait 1 3 -1")
        cluster[1].pause()
        with self.refused("-EHOSTDOWN"):
            sender.answer()
        self.down(cluster[0], cluster[1])
        self.lost(sender, f"start {stream.plan}", "barrier -1")

        cluster[1].resume()
        harness.until(lambda: cluster[0].ping(cluster[1]), "they talk again")
        self.assertEqual(cluster[0].state_of(cluster[1]), "up")
        self.assertEqual(cluster[1].counts()[0], 1, "its client's session has survived")
        with self.refused("-EHOSTDOWN"):
            receiver.ask("notified_wait 0 3 -1")
        again = Stream(*cluster.group([0, 1], name="again"))
        self.assertEqual(again.run(10), 10)
        self.assertGreater(bystander.finish(), 0)

    def test_a_loop_that_stands_still(self):
        """A daemon whose loop is busy for longer than the time-out does not count as down: a thread of its own sends heartbeats.
        When that stops, too, the daemon does."""
        cluster = self.pair(2, {"control.heartbeat_interval": "100ms", "control.heartbeat_timeout": f"{1 * harness.SLOW:.0f}s"})
        stream = Stream(*cluster.group([0, 1]))
        self.assertEqual(stream.run(10), 10)
        with stopped_thread(cluster[1].process.pid):
            time.sleep(2 * harness.SLOW)
            self.assertEqual(cluster[0].state_of(cluster[1]), "up")
        self.assertEqual(stream.run(10), 10)
        cluster[1].pause()
        self.down(cluster[0], cluster[1])
        cluster[1].resume()

    def test_clients_of_a_stopped_daemon(self):
        """Their calls end with their time-outs."""
        cluster = self.pair()
        actors = cluster.group([0, 1], TCA_TIMEOUT="1s")
        plan = actors[1].plan("notify 1 0", seat="daemon")
        cluster[1].pause()
        for command in ("alloc 4096", "barrier 500", "lookup x 500", "publish x -"):
            with self.refused("-ETIMEDOUT"):
                actors[1].ask(command)
        actors[1].ask(f"start {plan}")
        with self.refused("-ETIMEDOUT"):
            actors[1].ask(f"wait {plan} 200")
        cluster[1].resume()
        actors[1].ask(f"wait {plan} -1")
        # What the abandoned calls have created is released.
        harness.until(lambda: cluster[1].counts()[1] == 0 or actors[1].ask("notified 1 1") is None, "the region is freed")
        actors[1].alloc(4096)

    def test_stopped_at_the_root(self):
        """A group whose coordinator is stopped: joining fails in time."""
        cluster = self.pair()
        cluster[1].pause()
        actor = cluster.actor(0)
        with self.assertRaises(Failed) as caught:
            actor.ask("open job@node1 0 1 3000")
        self.assertIn(caught.exception.name, ("-EHOSTDOWN", "-ETIMEDOUT"), caught.exception.text)
        cluster[1].resume()
        harness.until(lambda: cluster[0].ping(cluster[1]), "they talk again")
        actor.ask("open job@node1 0 1 -2")

    def all_up(self, cluster):
        return all(a.state_of(b) == "up" for a in cluster.nodes for b in cluster.nodes if a is not b)

    def test_a_node_comes_back_unasked(self):
        """Without a request for it: after its daemon was killed, and after both have counted each other as down."""
        cluster = self.pair(3, HEARTBEATS)
        for a, b in ((0, 1), (0, 2), (1, 2)):
            harness.until(lambda: cluster[a].ping(cluster[b]), "they are connected")
        cluster[2].kill()
        for node in cluster.nodes[:2]:
            self.down(node, cluster[2])
        for _ in range(20):  # it is looked for several times meanwhile, and stays down
            self.assertEqual(cluster[0].state_of(cluster[2]), "down")
            time.sleep(0.1)
        self.assertEqual(cluster[0].log_text().count("(id 2) is down"), 1)
        cluster[2].restart()
        harness.until(lambda: self.all_up(cluster), "all nodes count each other as up")
        cluster[1].pause()
        for node in (cluster[0], cluster[2]):
            self.down(node, cluster[1])
        cluster[1].resume()
        harness.until(lambda: self.all_up(cluster), "all nodes count each other as up again")

    def test_a_short_pause(self):
        """Shorter than the time-out: no effect."""
        cluster = self.cluster(2, options={"control.heartbeat_interval": "200ms", "control.heartbeat_timeout": "60s"})
        stream = Stream(*cluster.group([0, 1]))
        stream.begin()
        for _ in range(3):
            cluster[1].pause()
            time.sleep(0.5)
            cluster[1].resume()
            time.sleep(0.2)
        self.assertGreater(stream.finish(), 0)


if __name__ == "__main__":
    harness.main()
