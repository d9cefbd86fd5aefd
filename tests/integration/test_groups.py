#!/usr/bin/env python3
"""Groups over one, two and four nodes: joining, gathering, publishing, and disagreement."""

import os

import harness
from harness import Stream


class Groups(harness.Case):
    def all_of_it(self, nodes, places):
        cluster = self.cluster(nodes, subclusters=(nodes + 1) // 2)
        actors = cluster.group(places)
        for rank, actor in enumerate(actors):
            for other, place in enumerate(places):
                self.assertEqual(actor.ask(f"node_of {other}"), [str(place)])
                self.assertEqual(actor.ask(f"subcluster_of {other}"), [str(place // 2 * 2)])
            with self.refused("-EINVAL", str(len(places))):
                actor.ask(f"node_of {len(places)}")
            with self.refused("-EINVAL", str(len(places))):
                actor.ask(f"subcluster_of {len(places)}")

        for turn in range(5):
            for rank, actor in enumerate(actors):
                actor.tell(f"allgather {rank:04x}{turn:04x} -2")
            expected = "".join(f"{rank:04x}{turn:04x}" for rank in range(len(places)))
            for actor in actors:
                self.assertEqual(actor.answer(), [expected])
        for actor in actors:
            actor.tell("barrier -2")
        for actor in actors:
            actor.answer()
        return cluster, actors

    def test_one_node(self):
        self.all_of_it(1, [0, 0, 0])

    def test_two_nodes(self):
        self.all_of_it(2, [0, 1, 1, 0])

    def test_four_nodes(self):
        _, actors = self.all_of_it(4, [0, 1, 2, 3, 3, 2])
        for left, right in ((0, 1), (1, 2), (3, 4), (5, 0)):
            stream = Stream(actors[left], actors[right], ranks=(left, right), shape="64x64x256")
            self.assertEqual(stream.run(5), 5)
        with self.refused("-ETIMEDOUT", "ranks 0-2,4-5 of 6 did not take part in time"):
            actors[3].ask("barrier 300")

    def test_many_nodes(self):
        """The tree of the nodes has inner nodes (daemon/groups/tree.h): a call fails at all ranks when one of these is down."""
        places = [*range(20), 19, 3, 18, 7]
        cluster, actors = self.all_of_it(20, places)
        for rank, actor in enumerate(actors):
            if places[rank] != 1:
                actor.tell("barrier -1")
        cluster[1].kill()
        for rank, actor in enumerate(actors):
            if places[rank] != 1:
                with self.refused("-EHOSTDOWN", "of node node1) has ended: its node is down"):
                    actor.answer()
                with self.refused("-EHOSTDOWN", "of node node1) has ended: its node is down"):
                    actor.ask("allgather 00 -1")

    def test_barrier_holds(self):
        """No rank leaves it before the last has entered."""
        actors = self.cluster(2).group([0, 1, 0])
        actors[0].tell("barrier -2")
        actors[1].tell("barrier -2")
        self.assertFalse(actors[0].selector.select(0.5))
        actors[2].ask("barrier -2")
        actors[0].answer()
        actors[1].answer()

    def test_notifications_of_any_rank(self):
        """Ranks are served in turn; a dead one is skipped, and what it sent before is not lost."""
        receiver, *senders = self.cluster(2).group([0, 0, 1, 0])
        with self.refused("-ETIMEDOUT"):
            receiver.ask("heard 5 10")
        plans = [sender.plan("notify 0 5") for sender in senders]
        for turn in range(3):
            for sender, plan in zip(senders, plans):
                sender.run(plan)
        for rank in (1, 2, 3):
            harness.until(lambda: receiver.ask(f"count {rank} 5") == ["3"], "three notifications each")
        self.assertEqual([receiver.ask("heard 5 -2") for _ in range(9)], [[str(rank)] for rank in (1, 2, 3) * 3])

        senders[0].run(plans[0])
        senders[0].kill()
        self.assertEqual(receiver.ask("heard 5 -2"), ["1"])
        receiver.tell("heard 5 -1")  # asleep, by and by
        senders[1].ask("sleep 200")
        senders[1].ask(f"start {plans[1]}")
        self.assertEqual(receiver.answer(), ["2"])

    def test_publish_and_lookup(self):
        cluster = self.cluster(2)
        left, right = cluster.group([0, 1])
        region = left.alloc(4096)
        handle, part = left.handle(region), left.handle(region, 128, 256)
        right.tell("lookup face -2")  # before it is there
        left.ask(f"publish face {handle}")
        self.assertEqual(right.answer(), [handle])
        self.assertEqual(left.ask("lookup face -2"), [handle])
        left.ask(f"publish face {part}")
        self.assertEqual(right.ask("lookup face -2"), [part])
        with self.refused("-EEXIST", "face", "node0"):  # but not by another
            right.ask(f"publish face {handle}")
        left.ask("publish face -")
        with self.refused("-ETIMEDOUT", "face"):
            right.ask("lookup face 200")
        other = cluster.actor(1)
        other.ask("open elsewhere 0 1 -2")
        left.ask(f"publish face {handle}")
        with self.refused("-ETIMEDOUT"):
            other.ask("lookup face 200")  # a name is known to its own group only
        left.ask("close")
        harness.until(lambda: self.is_unknown(right, "face"), "what a session published goes with it")

    @staticmethod
    def is_unknown(actor, name):
        try:
            actor.ask(f"lookup {name} 200")
        except harness.Failed as failed:
            return failed.name == "-ETIMEDOUT"
        return False

    def test_incomplete_group(self):
        """A group that stays incomplete: the error names the missing ranks; the name can be used again."""
        cluster = self.cluster(2)
        left, right = cluster.actor(0), cluster.actor(1)
        with self.refused("-ETIMEDOUT", "job"):
            left.ask("open job 0 2 300")
        left.tell("open job 0 2 -2")
        right.tell("open job 1 2 -2")
        left.answer()
        right.answer()

    def test_two_of_one_rank(self):
        cluster = self.cluster(2)
        left, right = cluster.actor(0), cluster.actor(1)
        left.until_joining("open job@node0 0 2 -1")
        with self.refused("-EEXIST", "rank 0"):
            right.ask("open job@node0 0 2 -2")
        right.ask("open job@node0 1 2 -2")
        left.answer()

    def test_other_size(self):
        cluster = self.cluster(1)
        left, right = cluster.actor(), cluster.actor()
        left.until_joining("open job 0 2 -1")
        with self.refused("-EINVAL", "2", "3"):
            right.ask("open job 1 3 -2")
        right.ask("open job 1 2 -2")
        left.answer()

    def test_two_groups(self):
        """Groups with the same ranks stay separate."""
        cluster = self.cluster(2)
        one, two = cluster.group([0, 1], name="one"), cluster.group([1, 0], name="two")
        streams = [Stream(*one), Stream(*two)]
        for stream in streams:
            stream.begin(30)
        for stream in streams:
            self.assertEqual(stream.finish(), 30)


def order(name, nodes, uid=0):
    """The numbers of the nodes in the order in which they are to coordinate the group (daemon/groups/group_name.c)."""
    def mix(value, data):
        for byte in data:
            value = (value ^ byte) * 0x100000001b3 % 2**64
        return value

    def spread(value):
        value = (value ^ value >> 33) * 0xff51afd7ed558ccd % 2**64
        value = (value ^ value >> 33) * 0xc4ceb9fe1a85ec53 % 2**64
        return value ^ value >> 33

    group = mix(mix(0xcbf29ce484222325, uid.to_bytes(4, "little")), name.encode() + b"\0")
    return sorted(range(nodes), key=lambda node: spread(mix(group, f"node{node}".encode())), reverse=True)


def names_in(nodes, *begin):
    """Names of groups in whose order these nodes come first."""
    return [name for name in (f"g{number}" for number in range(400)) if order(name, nodes, os.geteuid())[:len(begin)] == [*begin]]


class Coordinators(harness.Case):
    """Nodes that would coordinate a group, but do not answer, or are not in all cluster files."""

    def join(self, cluster, name, *places):
        return [actor.process.pid for actor in cluster.group(places, name=name)]

    def test_dead(self):
        cluster = self.cluster(4, options={"rails.enable": "shm tcp"})
        cluster[3].kill()
        cluster[2].kill()
        for name in names_in(4, 3)[:3] + names_in(4, 3, 2, 1)[:2] + names_in(4, 2, 3, 0)[:2]:
            self.join(cluster, name, 0, 1)
        # Named, it is not passed over.
        with self.refused("-EHOSTDOWN", "coordinated by node node3, which is down"):
            cluster.actor(0).ask("open job@node3 0 2 -2")

    def test_comes_back(self):
        """A member that has passed over it is sent on to it when it is back."""
        cluster = self.cluster(3, options={"rails.enable": "shm tcp"})
        for name in names_in(3, 2, 0)[:1] + names_in(3, 2, 1)[:1]:
            cluster[2].kill()
            early = cluster.actor(0)
            early.until_joining(f"open {name} 0 2 -2")
            harness.until(lambda: cluster[order(name, 3, os.geteuid())[1]].tcactl("status")["groups"] == 1, "it waits there")
            cluster[2].restart()
            late = cluster.actor(1)
            late.ask(f"open {name} 1 2 -2")
            early.answer()
            for actor in early, late:
                actor.ask("close")

    def test_stopped(self):
        """It counts as up, and is passed over; members are sent on to it when it goes on."""
        cluster = self.cluster(3, options={"rails.enable": "shm tcp", "control.heartbeat_timeout": "600s"})
        self.assertTrue(cluster[0].ping(cluster[2]) and cluster[1].ping(cluster[2]))
        cluster[2].pause()
        names = names_in(3, 2, 0)[:1] + names_in(3, 2, 1)[:1]
        for name in names:
            actors = [cluster.actor(place) for place in (0, 1)]
            for rank, actor in enumerate(actors):
                actor.tell(f"open {name} {rank} 2 20000")
            for actor in actors:
                actor.answer()
        early = cluster.actor(0)
        name = names_in(3, 2, 1)[1]
        early.until_joining(f"open {name} 0 2 -2")
        harness.until(lambda: cluster[1].tcactl("status")["groups"] == 2, "it waits there")
        cluster[2].resume()
        harness.until(lambda: cluster[2].tcactl("status")["groups"] == 1, "it waits here")
        cluster.actor(1).ask(f"open {name} 1 2 -2")
        early.answer()
        cluster[2].pause()
        actor = cluster.actor(0)
        with self.refused("-ETIMEDOUT", "coordinated by node node2", "tcactl ping node2"):
            actor.ask("open job@node2 0 2 300")

    def test_cluster_files_differ(self):
        """Node 4 is new, and only node 0 has heard of it."""
        cluster = harness.Cluster(5, options={"rails.enable": "shm tcp"})
        self.addCleanup(self.take_down, cluster)
        with open(cluster.file, encoding="ascii") as file:
            lines = file.readlines()
        with open(cluster.file + ".old", "w", encoding="ascii") as file:
            file.writelines(lines[:-1])
        for node in cluster.nodes[1:4]:
            node.options = {**node.options, "node.cluster_file": cluster.file + ".old"}
            node.configure()
        cluster.up()
        # The next node does not know the new one, or knows it, but the members do not: all meet there.
        for name in names_in(5, 4, 1)[:2] + names_in(5, 4, 2)[:2] + names_in(5, 4, 0)[:2]:
            self.join(cluster, name, 0, 1)
        for name in names_in(5, 4, 0)[2:4]:
            self.join(cluster, name, 1, 2)
        self.assertTrue(cluster[0].ping(cluster[1]) and cluster[0].ping(cluster[4]))
        files = [node["cluster_file"] for node in cluster[0].tcactl("nodes")["nodes"]]
        self.assertEqual([files[0], files[1], files[4]], ["same", "different", "same"])
        self.assertIn("node node1 (id 1) has another cluster file", cluster[0].log_text())


if __name__ == "__main__":
    harness.main()
