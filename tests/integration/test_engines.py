#!/usr/bin/env python3
"""Several engine threads: the sessions are divided among them, and nothing else changes."""

import random

import harness
import ranks
import test_order
from harness import Stream


class Engines(ranks.Ranks):
    OPTIONS = {"engine.threads": "2"}

    def engines(self, node):
        return node.tcactl("status")["engines"]

    def test_sessions_are_divided(self):
        """Each engine runs the starts of its sessions, and no other."""
        cluster = self.cluster(2, options=self.OPTIONS, fresh=True)
        streams = [Stream(*cluster.group([0, 1], name=f"job{number}"), seat="daemon", ack_seat="daemon", shape="64x1024x4096")
                   for number in range(4)]
        for node in cluster.nodes:
            self.assertEqual([engine["sessions"] for engine in self.engines(node)], [2, 2])
        before = [self.engines(node) for node in cluster.nodes]
        for stream in streams[:2]:
            self.assertEqual(stream.run(20), 20)
        for node, engines in zip(cluster.nodes, before):
            self.assertEqual([now["starts"] - then["starts"] for now, then in zip(self.engines(node), engines)], [20, 20])
        for stream in streams:
            stream.begin(50)
        for stream in streams:
            self.assertEqual(stream.finish(), 50)
        for node in cluster.nodes:
            status = node.tcactl("status")
            for key in ("sessions", "starts", "completions", "errors", "bytes"):
                self.assertEqual(sum(engine[key] for engine in status["engines"]), status["engine"][key], key)
            self.assertEqual([engine["completions"] for engine in status["engines"]], [120, 120])

    def test_chains(self):
        """The random chains of test_order, of senders at both engines."""
        cluster = self.cluster(2, options=self.OPTIONS)
        for places in ([0, 0, 1], [0, 0, 1], [0, 1]):
            actors = cluster.group(places, name=f"job{len(cluster.actors)}")
            rounds = test_order.Rounds(self, actors, f"{test_order.SEED}.{len(cluster.actors)}")
            for _ in range(8):
                rounds.round(["any", "tcp"], ["daemon"])

    def test_waits(self):
        """A start waits at an engine that sleeps for what sessions of the other engine notify, from both seats and from afar."""
        cluster = self.cluster(2, options=self.OPTIONS)
        ranks_of = cluster.group([0, 0, 1])
        self.assertEqual([engine["sessions"] for engine in self.engines(cluster[0])], [1, 1])
        for waiter in (0, 1):
            for teller, seat in ((1 - waiter, "client"), (1 - waiter, "daemon"), (2, "daemon")):
                with self.subTest(waiter=waiter, teller=teller, seat=seat):
                    plan = ranks_of[waiter].plan(f"await {teller} 0 1", f"notify {teller} 1", seat="daemon")
                    tell = ranks_of[teller].plan(f"notify {waiter} 0", seat=seat)
                    for _ in range(harness.rounds(8)):
                        ranks_of[waiter].ask(f"start {plan}")
                        harness.until(lambda: all(engine["state"] == "asleep" for engine in self.engines(cluster[0])), "the engines sleep")
                        ranks_of[teller].run(tell)
                        ranks_of[waiter].ask(f"wait {plan} -2")
                        ranks_of[teller].ask(f"notified_wait {waiter} 1 -2")

    def test_mesh(self):
        """All put into each other's memory, one dies."""
        for places, victim in (([0] * 6, None), ([0, 0, 0, 1, 1, 1], None), ([0, 0, 0, 1, 1, 1], 3), ([0] * 6, 2)):
            with self.subTest(places=places, victim=victim):
                words = [harness.program("mesh"), "2", "4", str(ranks.SEED), "daemon", *([str(victim)] if victim is not None else [])]
                self.ranks(self.cluster(1 + max(places), options=self.OPTIONS), places, words, victim)

    def test_memory_is_freed(self):
        """While sessions of both engines put into it, near and far."""
        cluster = self.cluster(2, options=self.OPTIONS)
        dice = random.Random(test_order.SEED)
        for turn in range(harness.rounds(6)):
            place = turn % 2
            senders = cluster.group([0, 0, place], name=f"free{turn}")
            owner = senders.pop()
            size = dice.choice([4096, 1 << 20])
            target = owner.alloc(size)
            plans = []
            for sender in senders:
                source = sender.alloc(size)
                plans.append(sender.plan(f"put {source} 0 {size} {owner.handle(target)} 0 {size}", "notify 2 0", seat="daemon"))
                sender.tell(f"repeat {plans[-1]} 0")
            if turn % 3 == 2:
                owner.kill()
            else:
                owner.ask("notified_wait 0 0 -2")
                owner.ask(f"free {target}")
            for sender in senders:
                with self.refused("-EOWNERDEAD" if turn % 3 == 2 else "-ESTALE"):
                    sender.answer()
            cluster.kill_actors([actor for actor in cluster.actors if actor.process])
            cluster.actors.clear()
            cluster.until_empty()

    def test_a_node_ends(self):
        """The links of both engines are lost, and come back."""
        cluster = self.cluster(2, options=self.OPTIONS)
        for turn in range(2):
            pairs = [cluster.group([0, 1], name=f"job{turn}.{number}") for number in range(4)]
            for sender, receiver in pairs:
                Stream(sender, receiver, seat="daemon", shape="64x1024x4096").run(10)
            if turn == 0:
                plans = []
                for sender, receiver in pairs:
                    source, target = sender.alloc(64), receiver.alloc(64)
                    plans.append(sender.plan(f"put {source} 0 64 {receiver.handle(target)} 0 64", seat="daemon"))
                    sender.run(plans[-1])
                cluster[1].kill()
                for (sender, _), plan in zip(pairs, plans):
                    def fails(sender=sender, plan=plan):
                        try:
                            sender.run(plan)
                        except harness.Failed as failed:
                            return failed.name in ("-EHOSTDOWN", "-ENETDOWN")
                        return False
                    harness.until(fails, "the start fails")
                cluster.kill_actors([actor for actor in cluster.actors if actor.process])
                cluster.actors.clear()
                cluster[1].restart()

    def test_rails_without_branches(self):
        """A rail that one thread polls is refused, with the remedy."""
        cluster = harness.Cluster(1, options={"rails.enable": "shm ofi", **self.OPTIONS})
        self.addCleanup(cluster.remove)
        cluster[0].start()
        self.assertNotEqual(cluster[0].process.wait(harness.DEADLINE_S), 0)
        cluster[0].process = None
        self.assertIn("engine.threads = 2, but the rail ofi", cluster[0].log_text())
        self.assertIn("can be used by 1 only: set engine.threads = 1", cluster[0].log_text())


if __name__ == "__main__":
    harness.main()
