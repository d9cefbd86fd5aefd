#!/usr/bin/env python3
"""Normal operation: every rail and seat, shapes, chains, channels, receipts, and what tcactl shows of them."""

import harness
from harness import Stream

# Requested and resulting rail and seat, on one node and between nodes.
NEAR = [("shm", "client"), ("shm", "daemon"), ("ofi", "daemon")]
FAR = [("ofi", "daemon")]
# source, target: contiguous, gather, scatter, both, other blocks on the other side
SHAPES = [("1", "1"), ("65536", "65536"), ("64x32x128", "2048"), ("2048", "64x32x128"), ("64x32x128", "64x32x256"),
          ("100x8x4096", "50x16x64"), ("1000x1x3", "1x1000x0"), ("700001", "700001")]


def rails(receipt):
    return receipt["rail"], receipt["seat"]


class Transfers(harness.Case):
    RAILS = "shm ofi"

    def all_shapes(self, places, ways):
        sender, receiver = self.cluster(1 + max(places)).group(places)
        for rail, seat in ways:
            for shape, target_shape in SHAPES:
                with self.subTest(rail=rail, seat=seat, shape=shape, target_shape=target_shape):
                    stream = Stream(sender, receiver, rail=rail, seat=seat, shape=shape, target_shape=target_shape)
                    self.assertEqual(stream.run(5), 5)
                    receipt = sender.receipt(stream.plan)
                    self.assertEqual(rails(receipt), (rail, seat))
                    self.assertEqual(receipt["encryption"], "local" if places[0] == places[1] else "none")
                    sender.ask(f"freeplan {stream.plan}")
                    sender.ask(f"free {stream.source}")
                    receiver.ask(f"freeplan {stream.ack}")
                    receiver.ask(f"free {stream.target}")

    def test_on_one_node(self):
        self.all_shapes([0, 0], NEAR)

    def test_between_nodes(self):
        self.all_shapes([0, 1], FAR)

    def test_gaps_stay_as_they_are(self):
        for places, ways in (([0, 0], NEAR), ([0, 1], FAR)):
            sender, receiver = self.cluster(1 + max(places)).group(places)
            for rail, seat in ways:
                with self.subTest(rail=rail, seat=seat):
                    stream = Stream(sender, receiver, rail=rail, seat=seat, shape="32x8x24", target_shape="16x16x40")
                    self.assertEqual(stream.written_gaps(1), [])

    def test_free_choice(self):
        """Without a request, the rail suits the distance."""
        cluster = self.cluster(2)
        near = Stream(*cluster.group([0, 0], name="near"))
        far = Stream(*cluster.group([0, 1], name="far"))
        self.assertEqual((near.run(3), far.run(3)), (3, 3))
        self.assertEqual(near.sender.receipt(near.plan)["rail"], "shm")
        self.assertEqual(rails(far.sender.receipt(far.plan)), ("ofi", "daemon"))

    def test_to_itself(self):
        actor = self.cluster(1).actor()
        actor.ask("open - 0 0 -2")
        source = actor.alloc(8192)
        target = actor.alloc(8192)
        for rail, seat in NEAR:
            with self.subTest(rail=rail, seat=seat):
                plan = actor.plan(f"put {source} 0 4096 {actor.handle(target)} 100 4096", "notify 0 3", rail=rail, seat=seat)
                actor.ask(f"fill {source} 0 4096 7")
                actor.ask(f"start {plan}")
                actor.ask(f"notified_wait 0 3 -2")
                actor.ask(f"check {target} 100 4096 7")
                actor.ask(f"wait {plan} -2")

    def test_nothing_to_do(self):
        """A rank at the edge of a grid puts to no one: its plan works like those of the others."""
        cluster = self.cluster(1)
        actor = cluster.actor()
        actor.ask("open - 0 0 -2")
        for rail, seat in [("any", "any"), ("ofi", "daemon"), ("shm", "client")]:
            with self.subTest(rail=rail, seat=seat):
                plan = actor.plan("chain", rail=rail, seat=seat)
                for _ in range(3):
                    actor.run(plan)
                self.assertEqual(actor.receipt(plan)["bytes"], 0)
                shown = cluster.nodes[0].plans()[0]
                self.assertEqual((shown["chains"], shown["steps"], shown["starts"], shown["state"]), (0, 0, 3, "ready"))
                self.assertEqual((shown["driver"], shown["seat"]), (None, None))
                self.assertEqual(cluster.nodes[0].tcactl("plan", "explain", shown["id"])["chains"], [])
                actor.ask(f"freeplan {plan}")

    def test_part_of_a_region(self):
        """A handle to a part gives access to that part only."""
        sender, receiver = self.cluster(2).group([0, 1])
        source = sender.alloc(65536)
        target = receiver.alloc(65536)
        part = receiver.handle(target, 4096, 1000)
        with self.refused("-EINVAL", "1000"):
            sender.plan(f"put {source} 0 1001 {part} 0 1001")
        plan = sender.plan(f"put {source} 10 500 {part} 500 500", "notify 1 0")
        sender.ask(f"fill {source} 10 500 3")
        receiver.ask(f"set {target} 0 65536 0xaa")
        sender.ask(f"start {plan}")
        receiver.ask("notified_wait 0 0 -2")
        receiver.ask(f"check {target} 4596 500 3")
        self.assertEqual(receiver.ask(f"read {target} 4590 6")[0], "aa" * 6)
        self.assertEqual(receiver.ask(f"read {target} 5096 6")[0], "aa" * 6)

    def test_many_chains(self):
        """The chains of one plan go to several ranks on both nodes, each on the suitable rail."""
        actors = self.cluster(2).group([0, 0, 1, 1])
        source = actors[0].alloc(1 << 20)
        targets = [actor.alloc(65536) for actor in actors[1:]]
        steps = []
        for rank in (1, 2, 3):
            steps += ["chain"] if steps else []
            steps += [f"put {source} {rank * 65536} 65536 {actors[rank].handle(targets[rank - 1])} 0 65536", f"notify {rank} 9"]
        plan = actors[0].plan(*steps)
        for turn in range(20):
            for rank in (1, 2, 3):
                actors[0].ask(f"fill {source} {rank * 65536} 65536 {turn * 10 + rank}")
            actors[0].ask(f"start {plan}")
            for rank in (1, 2, 3):
                actors[rank].ask("notified_wait 0 9 -2")
                actors[rank].ask(f"check {targets[rank - 1]} 0 65536 {turn * 10 + rank}")
            actors[0].ask(f"wait {plan} -2")
        self.assertEqual(actors[0].receipt(plan)["bytes"], 3 * 65536)

    def test_channels(self):
        """All channels and several slots at once, between the same pair."""
        for places in ([0, 0], [0, 1]):
            sender, receiver = self.cluster(1 + max(places)).group(places)
            source = sender.alloc(1 << 20)
            target = receiver.alloc(1 << 20)
            handle = receiver.handle(target)
            plans = [sender.plan(f"put {source} {i * 65536} 65536 {handle} {i * 65536} 65536", f"notify 1 {i}",
                                 seat="daemon", channel=i % 4) for i in range(16)]
            for turn in range(10):
                for i, plan in enumerate(plans):
                    sender.ask(f"fill {source} {i * 65536} 65536 {turn * 100 + i}")
                    sender.ask(f"start {plan}")
                for i, plan in enumerate(plans):
                    receiver.ask(f"notified_wait 0 {i} -2")
                    receiver.ask(f"check {target} {i * 65536} 65536 {turn * 100 + i}")
                    sender.ask(f"wait {plan} -2")

    def test_waiting_holds_up_no_channel(self):
        """A waiting plan in the daemon's seat blocks neither its own channel nor another."""
        sender, receiver = self.cluster(2).group([0, 1])
        source = sender.alloc(4096)
        target = receiver.alloc(4096)
        first = sender.plan("await 1 5 1", f"put {source} 0 64 {receiver.handle(target)} 0 64", "notify 1 0", channel=1)
        second = sender.plan("notify 1 1", channel=1, seat="daemon")
        aside = sender.plan("notify 1 2", channel=2, seat="daemon")
        go = receiver.plan("notify 0 5")
        sender.ask(f"fill {source} 0 64 7")
        for plan in (first, second, aside):
            sender.ask(f"start {plan}")
        receiver.ask("notified_wait 0 1 -2")
        receiver.ask("notified_wait 0 2 -2")
        self.assertEqual(receiver.ask("notified 0 0"), ["0"], "the first did not wait")
        self.assertEqual(sender.ask(f"test {first}"), ["0"], "the first did not wait")
        receiver.ask(f"start {go}")
        receiver.ask("notified_wait 0 0 -2")
        receiver.ask(f"check {target} 0 64 7")
        for plan in (first, second, aside):
            sender.ask(f"wait {plan} -2")


class Sessions(harness.Case):
    RAILS = "shm ofi"

    def test_session_mode(self):
        """Chains that wait for notifications pass a token and data along, while the clients in between sleep."""
        for places in ([0, 0, 0], [0, 1, 0], [0, 1, 2]):
            with self.subTest(places=places):
                first, middle, last = self.cluster(1 + max(places)).group(places)
                origin = first.alloc(65536)
                relay = middle.alloc(65536)
                end = last.alloc(65536)
                head = first.plan(f"put {origin} 0 65536 {middle.handle(relay)} 0 65536", "notify 1 0", seat="daemon")
                tail = middle.plan("await 0 0 1", f"put {relay} 0 65536 {last.handle(end)} 0 65536", "notify 2 1", seat="daemon")
                for turn in range(3):
                    middle.ask(f"start {tail}")
                    self.assertEqual(middle.ask(f"test {tail}"), ["0"], "it ran before its notification")
                    middle.tell("sleep 300")
                    first.ask(f"fill {origin} 0 65536 {turn}")
                    first.ask(f"start {head}")
                    last.ask("notified_wait 1 1 -2")
                    last.ask(f"check {end} 0 65536 {turn}")
                    middle.answer()
                    middle.ask(f"wait {tail} -2")
                    first.ask(f"wait {head} -2")

    def test_client_seat_waits(self):
        """The same with the middle in the client's seat: it advances in the client's waits."""
        first, middle, last = self.cluster(1).group([0, 0, 0])
        origin = first.alloc(4096)
        relay = middle.alloc(4096)
        end = last.alloc(4096)
        head = first.plan(f"put {origin} 0 4096 {middle.handle(relay)} 0 4096", "notify 1 0", seat="client")
        tail = middle.plan("await 0 0 1", f"put {relay} 0 4096 {last.handle(end)} 0 4096", "notify 2 1", seat="client")
        for turn in range(20):
            middle.ask(f"start {tail}")
            middle.tell(f"wait {tail} -2")
            first.ask(f"fill {origin} 0 4096 {turn}")
            first.ask(f"start {head}")
            middle.answer()
            last.ask("notified_wait 1 1 -2")
            last.ask(f"check {end} 0 4096 {turn}")

    def test_notifications_are_counted(self):
        for places in ([0, 0], [0, 1]):
            for seat in ("client", "daemon") if places == [0, 0] else ("daemon",):
                with self.subTest(places=places, seat=seat):
                    sender, receiver = self.cluster(1 + max(places)).group(places)
                    plan = sender.plan("notify 1 63", seat=seat)
                    waiter = receiver.plan("await 0 63 5", "notify 1 7")
                    for _ in range(10):
                        sender.run(plan)
                    harness.until(lambda: receiver.ask("count 0 63") == ["10"], "ten notifications arrive")
                    receiver.ask(f"start {waiter}")
                    receiver.ask("notified_wait 1 7 -2")
                    receiver.ask(f"wait {waiter} -2")
                    self.assertEqual(receiver.ask("count 0 63"), ["5"])
                    for left in (4, 3, 2, 1, 0):
                        self.assertEqual(receiver.ask("notified 0 63"), ["1"])
                        self.assertEqual(receiver.ask("count 0 63"), [str(left)])
                    self.assertEqual(receiver.ask("notified 0 63"), ["0"])
                    with self.refused("-ETIMEDOUT"):
                        receiver.ask("notified_wait 0 63 50")

    def test_same_addresses(self):
        """A pointer into a region is valid in every process of the node that has mapped it."""
        left, right = self.cluster(1).group([0, 0])
        mine, address = left.region("alloc", 4096)
        other, there = right.region("alloc", 4096)
        self.assertNotEqual(address, there)
        left.plan(f"put {mine} 0 8 {right.handle(other)} 0 8", seat="client")
        for actor in (left, right):
            with open(f"/proc/{actor.pid}/maps", encoding="ascii") as maps:
                self.assertIn(f"{there:x}-", maps.read(), "the region is not at its owner's address")
        left.ask(f"point {mine} 0 {there}")
        self.assertEqual(int.from_bytes(bytes.fromhex(left.ask(f"read {mine} 0 8")[0]), "little"), there)

    def test_plans_come_and_go(self):
        cluster = self.cluster(2)
        sender, receiver = cluster.group([0, 1])
        source = sender.alloc(65536)
        target = receiver.alloc(65536)
        before = cluster[0].counts()
        for turn in range(50):
            plan = sender.plan(f"put {source} 0 65536 {receiver.handle(target)} 0 65536", "notify 1 0")
            sender.ask(f"fill {source} 0 65536 {turn}")
            sender.ask(f"start {plan}")
            receiver.ask("notified_wait 0 0 -2")
            receiver.ask(f"check {target} 0 65536 {turn}")
            sender.ask(f"freeplan {plan}")
        harness.until(lambda: cluster[0].counts() == before, "the plans are freed")
        harness.until(lambda: cluster[1].regions()[0]["bindings"] == 0, "the bindings of freed plans are gone")

    def test_freed_region(self):
        """The region is freed: starts of the peers' plans return -ESTALE, and so do new plans with its handle."""
        for places, seats in (([0, 0], ("client", "daemon")), ([0, 1], ("daemon",))):
            for seat in seats:
                with self.subTest(places=places, seat=seat):
                    sender, receiver = self.cluster(1 + max(places)).group(places)
                    stream = Stream(sender, receiver, seat=seat)
                    stream.run(3)
                    handle = receiver.handle(stream.target)
                    receiver.ask(f"free {stream.target}")
                    stale = harness.until(lambda: self.start_fails(sender, stream.plan), "starts fail")
                    self.assertEqual(stale.name, "-ESTALE", stale.text)
                    with self.refused("-ESTALE", "region"):
                        sender.plan(f"put {stream.source} 0 8 {handle} 0 8")
                    # another slot: a start that came before the news of the free may still have notified
                    again = Stream(sender, receiver, seat=seat, slot=1)
                    self.assertEqual(again.run(3), 3)

    @staticmethod
    def start_fails(actor, plan):
        try:
            actor.run(plan)
        except harness.Failed as failed:
            return failed
        return None

    def test_busy_source(self):
        actor = self.cluster(1).actor()
        actor.ask("open - 0 0 -2")
        plan, source, _ = actor.put_plan(actor, 8, region_bytes=4096)
        with self.refused("-EBUSY", "plan"):
            actor.ask(f"free {source}")
        actor.ask(f"freeplan {plan}")
        actor.ask(f"free {source}")


class Receipts(harness.Case):
    RAILS = "shm ofi"

    def test_receipts(self):
        cases = [([0, 0], "shm", "client"), ([0, 0], "shm", "daemon"), ([0, 0], "ofi", "daemon"), ([0, 1], "ofi", "daemon")]
        for places, rail, seat in cases:
            with self.subTest(places=places, rail=rail, seat=seat):
                sender, receiver = self.cluster(1 + max(places)).group(places)
                source = sender.alloc(65536)
                target = receiver.alloc(65536)
                plan = sender.plan(f"put {source} 0 64x128x256 {receiver.handle(target)} 0 8192", "notify 1 0", rail=rail,
                                   seat=seat, timed=True)
                with self.refused("-ENODATA"):
                    sender.ask(f"receipt {plan}")
                for turn in range(1, 4):
                    sender.run(plan)
                    receipt = sender.receipt(plan)
                    self.assertEqual(rails(receipt), (rail, seat))
                    self.assertEqual((receipt["status"], receipt["starts"], receipt["bytes"]), (0, turn, 8192))
                    self.assertGreaterEqual(receipt["descriptors"], 1)
                    self.assertLess(0, receipt["start_ns"])
                    times = ["start_ns", "taken_ns", "posted_ns", "done_ns", "seen_ns"]
                    seen = [receipt[name] for name in times if seat == "daemon" or name not in ("taken_ns", "posted_ns")]
                    self.assertEqual(seen, sorted(seen), "a receipt's times go backwards")


class Shown(harness.Case):
    RAILS = "shm ofi"

    def test_tcactl_sees_it(self):
        cluster = self.cluster(2)
        sender, receiver = cluster.group([0, 1], name="visible")
        stream = Stream(sender, receiver, rail="ofi", shape="128x64x128", target_shape="8192")
        receiver.ask(f"publish face {receiver.handle(stream.target)}")
        stream.run(7)

        mine = next(session for session in cluster[0].sessions() if session["pid"] == sender.pid)
        self.assertEqual((mine["group"], mine["rank"], mine["size"], mine["state"]), ("visible", 0, 2, "open"))
        self.assertEqual((mine["regions"], mine["region_bytes"], mine["plans"]), (1, 1 << 20, 1))
        self.assertEqual((mine["starts"], mine["bytes"]), (7, 7 * 8192))

        plan = next(plan for plan in cluster[0].plans() if plan["pid"] == sender.pid)
        self.assertEqual((plan["name"], plan["driver"], plan["seat"]), ("stream", "ofi", "daemon"))
        self.assertEqual((plan["starts"], plan["bytes"], plan["errors"], plan["state"]), (7, 8192, 0, "ready"))

        explained = cluster[0].tcactl("plan", "explain", plan["id"])
        chain = explained["chains"][0]
        chosen = [way for way in chain["candidates"] if way["chosen"]]
        self.assertEqual([(way["driver"], way["seat"]) for way in chosen], [("ofi", "daemon")])
        self.assertTrue(all(way["why"] for way in chain["candidates"]))
        self.assertEqual(chain["steps"][0]["target"]["node"], 1)

        region = next(region for region in cluster[1].regions() if region["pid"] == receiver.pid)
        self.assertEqual((region["bytes"], region["bindings"]), (1 << 20, 1))
        root = [name for node in cluster.nodes for region in node.regions() for name in region["published"]]
        self.assertLessEqual(set(root), {"visible/face"})

        status = cluster[0].tcactl("status")
        self.assertEqual(status["cluster"]["security"], "tls")
        there = {rail["driver"]: rail["state"] for rail in status["rails"] if rail["state"] != "absent"}  # no board is
        self.assertEqual(there, {"shm": "up", "ofi": "up"})
        self.assertEqual([node["state"] for node in cluster[0].tcactl("nodes")["nodes"]][1], "up")
        families = {family["name"]: family for family in cluster[0].tcactl("stats")["families"]}
        self.assertGreaterEqual(families["tcad_engine_completions"]["samples"][0]["value"], 7)
        self.assertEqual(families["tcad_engine_errors"]["samples"][0]["value"], 0)
        self.assertTrue(cluster[0].ping(cluster[1]))


if __name__ == "__main__":
    harness.main()
