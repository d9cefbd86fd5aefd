#!/usr/bin/env python3
"""Groups over one, two and four nodes: joining, gathering, publishing, and disagreement."""

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
        with self.refused("-EINVAL", "64"):
            receiver.ask("heard 64 0")
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


if __name__ == "__main__":
    harness.main()
