#!/usr/bin/env python3
"""Large puts that are divided among several rails of one driver: what arrives, in which order, and when a rail is lost."""

import contextlib
import itertools
import tempfile

import harness
from actors import Failed, Stream
from connections import cut_off, stalled
from harness import until

MIB = 1 << 20
LARGE = 4 * MIB
SMALL = MIB // 2  # a share of it fits in the buffers of a connection
TWO_TCP = {"rails.enable": "shm tcp", "rails.tcp_security": "plain", "rail tcp:b.driver": "tcp", "rail tcp:b.plane": "b",
           "rail tcp:b.security": "plain"}
THREE_TCP = {"rails.enable": "shm", "rails.tcp_security": "plain", **{
    f"rail tcp:{name}.{key}": value for name in "abc" for key, value in (("driver", "tcp"), ("plane", name), ("security", "plain"))}}
OFI_TOO = {"rails.enable": "shm tcp ofi", "rail ofi:rxm.driver": "ofi", "rail ofi:rxm.provider": "tcp;ofi_rxm",
           "rail ofi:rxm.unprotected": "yes"}


class Checks(harness.Case):
    def pair(self, options, **more):
        self.nodes = self.cluster(2, options={"rails.calibration": "off", **options}, **more)
        return self.nodes.group([0, 1])

    def rails(self, driver):
        return sorted(rail["rail"] for rail in self.nodes[0].tcactl("status")["rails"] if rail["driver"] == driver and rail["state"] == "up")

    def steps(self, name):
        plan = next(plan["id"] for plan in self.nodes[0].plans() if plan["name"] == name)
        return [step for chain in self.nodes[0].tcactl("plan", plan)["chains"] for step in chain["steps"]]

    def shares(self, name):
        """By rail, of the plan's first step; {}: it is not divided."""
        return {stripe["rail"]: stripe["bytes"] for stripe in self.steps(name)[0]["stripes"] or []}

    def bytes_by_rail(self):
        families = {family["name"]: family["samples"] for family in self.nodes[0].tcactl("stats")["families"]}
        total = {}
        for sample in families["tcad_plan_put_bytes"]:
            total[sample["labels"]["rail"]] = total.get(sample["labels"]["rail"], 0) + sample["value"]
        return total

    def check_streams(self, driver, options):
        pair = self.pair(options)
        one, other = self.rails(driver)
        stream = Stream(*pair, rail=driver, shape=str(LARGE), region_bytes=2 * LARGE)
        self.assertEqual(self.shares("stream"), {one: LARGE // 2, other: LARGE // 2})
        before = self.bytes_by_rail()
        self.assertEqual(stream.run(harness.rounds(8)), harness.rounds(8))
        sent, total = harness.rounds(8) * LARGE // 2, self.bytes_by_rail()
        self.assertEqual([total[rail] - before.get(rail, 0) for rail in (one, other)], [sent, sent])
        plan = next(plan["id"] for plan in self.nodes[0].plans() if plan["name"] == "stream")
        own, further = self.shares("stream")
        self.assertIn(f"divided: 2.00 MiB over {own}, 2.00 MiB over {further}\n", self.nodes[0].tcactl_raw("plan", plan).stdout)
        return pair, one, other

    def check_whole(self, driver, pair, one, other):
        for slot, (rail, shape) in enumerate(((one, LARGE), (other, LARGE), (driver, MIB - 8)), 1):
            with self.subTest("not divided", rail=rail, shape=shape):
                plan = pair[0].plan(f"put {pair[0].alloc(LARGE)} 0 {shape} {pair[1].handle(pair[1].alloc(LARGE))} 0 {shape}",
                                    f"notify 1 {slot}", name="whole", rail=rail)
                self.assertEqual(self.shares("whole"), {})
                self.assertEqual(len(self.steps("whole")), 1, "the notification goes with the put")
                pair[0].ask(f"freeplan {plan}")

    def put(self, pair, shape, name, *more, **wishes):
        """A plan that fills the receiver's region from the sender's, whose bytes follow a seed."""
        source, target = (actor.alloc(LARGE) for actor in pair)
        pair[0].ask(f"fill {source} 0 {shape} 7")
        steps = (step.format(source=source, handle=pair[1].handle(target)) for step in more)
        return pair[0].plan(f"put {source} 0 {shape} {pair[1].handle(target)} 0 {shape}", *steps, name=name, **wishes), target

    def check_notified(self, driver, options, shape, share_shape):
        """While a stripe is held up, no notification of its chain or of a later start of its channel arrives."""
        pair = self.pair({**options, "rails.stripe": "256K"})
        sender, receiver = pair
        plan, target = self.put(pair, shape, "held", "notify 1 0", rail=driver)
        bare, bare_target = self.put(pair, shape, "bare", rail=driver, channel=1)
        one, other = self.shares("held")
        self.assertEqual(self.shares("held"), {one: SMALL // 2, other: SMALL // 2})
        self.assertEqual(self.shares("bare"), self.shares("held"))
        after = sender.plan("notify 1 1", rail=one, channel=1)
        mark = sender.plan("notify 1 2", rail=one, channel=2)
        for each in (plan, bare, plan):  # connects
            sender.run(each, -1)
        receiver.ask("notified_wait 0 0 -1")
        receiver.ask("notified_wait 0 0 -1")
        for region in (target, bare_target):
            receiver.ask(f"set {region} 0 {LARGE} 0")
        with stalled(self.nodes[1], other):
            for each in (plan, bare, after):
                sender.ask(f"start {each}")
            for region in (target, bare_target):
                until(lambda region=region: self.arrived(receiver, region, share_shape), "the share of the other rail is there")
            sender.ask(f"start {mark}")
            receiver.ask("notified_wait 0 2 -1")
            self.assertEqual([receiver.ask(f"count 0 {slot}") for slot in (0, 1)], [["0"], ["0"]])
        for each in (plan, bare, after):
            sender.ask(f"wait {each} -1")
        for region, slot in ((target, 0), (bare_target, 1)):
            receiver.ask(f"notified_wait 0 {slot} -1")
            receiver.ask(f"check {region} 0 {shape} 7")

    @staticmethod
    def arrived(receiver, region, shape):
        with contextlib.suppress(Failed):
            receiver.ask(f"check {region} 0 {shape} 7")
            return True
        return False

    def check_order(self, driver, options):
        """Puts of a chain that share bytes with a divided one, before and behind it, have the effect of running in order."""
        pair = self.pair(options)
        sender, receiver = pair
        small = sender.alloc(4096)
        middle, end = LARGE // 2 - 2048, LARGE - 4096
        sender.ask(f"fill {small} 0 4096 9")
        smalls = [f"put {small} 0 4096 {{handle}} {at} 4096" for at in (middle, end)]
        behind, behind_target = self.put(pair, LARGE, "behind", *smalls, "notify 1 0", rail=driver)
        source, target = sender.alloc(LARGE), receiver.alloc(LARGE)
        handle = receiver.handle(target)
        sender.ask(f"fill {source} 0 {LARGE} 7")
        before = sender.plan(*(step.format(handle=handle) for step in smalls), f"put {source} 0 {LARGE} {handle} 0 {LARGE}",
                             "notify 1 1", name="before", rail=driver)
        self.assertEqual(len(self.shares("behind")), 2)
        self.assertIsNotNone(self.steps("before")[2]["after"])
        for _ in range(harness.rounds(20)):
            sender.ask(f"start {behind}")
            sender.ask(f"start {before}")
            sender.ask(f"wait {behind} -1")
            sender.ask(f"wait {before} -1")
            receiver.ask("notified_wait 0 0 -1")
            receiver.ask("notified_wait 0 1 -1")
            for at in (middle, end):
                receiver.ask(f"check {behind_target} {at} 4096 9")
            receiver.ask(f"check {target} 0 {LARGE} 7")
            for region in (behind_target, target):
                receiver.ask(f"set {region} 0 {LARGE} 0")

    def check_overwrites(self, driver, options):
        """A put that overwrites two divided ones waits for all of their stripes, which are gathered and so complete here before they
        are there: also for one on a rail that the second does not use."""
        pair = self.pair({**options, "rails.stripe": "64K"})
        sender, receiver = pair
        first, second, half, second_at = 768 << 10, 160 << 10, 32 << 10, 2 * MIB
        shapes = [f"{size // 128}x128x256" for size in (first, second)]
        small = sender.alloc(2 * half)
        sender.ask(f"fill {small} 0 {2 * half} 9")
        also = f"put {{source}} 0 {shapes[1]} {{handle}} {second_at} {shapes[1]}"
        plan, _ = self.put(pair, shapes[0], "divided", also, rail=driver)
        shares, further = ({stripe["rail"]: stripe["bytes"] for stripe in step["stripes"]} for step in self.steps("divided"))
        sender.ask(f"freeplan {plan}")
        self.assertEqual((len(shares), len(further)), (3, 2))
        lost, = set(shares) - set(further)
        share_at = 2 * sum(itertools.takewhile(lambda share: share, (0 if rail == lost else share for rail, share in shares.items())))
        places = f"{share_at} 2x{half}x{second_at - share_at}"
        plan, target = self.put(pair, shapes[0], "overwritten", also, f"put {small} 0 {2 * half} {{handle}} {places}", "notify 1 0",
                                rail=driver)
        mark = sender.plan("notify 1 2", rail=next(iter(further)), channel=2)
        for each in (plan, mark):  # connects
            sender.run(each, -1)
        receiver.ask("notified_wait 0 0 -1")
        receiver.ask("notified_wait 0 2 -1")
        receiver.ask(f"set {target} 0 {LARGE} 0")
        with stalled(self.nodes[1], lost):
            sender.ask(f"start {plan}")
            for _ in range(20):  # meanwhile, it would arrive
                sender.run(mark, -1)
                receiver.ask("notified_wait 0 2 -1")
        sender.ask(f"wait {plan} -1")
        receiver.ask("notified_wait 0 0 -1")
        receiver.ask(f"check {target} {places} 9")

    def check_gaps(self, driver, options):
        """A layout with gaps is divided by its bytes; nothing between its blocks is written."""
        pair = self.pair(options)
        shape = "2048x1024x2048"
        stream = Stream(*pair, rail=driver, shape=shape, region_bytes=LARGE)
        pair[1].ask(f"set {stream.target} 0 {LARGE} 5")
        self.assertEqual(sum(self.shares("stream").values()), 2 * MIB)
        self.assertEqual(len(self.shares("stream")), 2)
        self.assertEqual(stream.run(4), 4)
        pair[1].ask(f"guarded {stream.target} 0 {shape} 5")

    def start(self, pair, plan, target):
        sender, receiver = pair
        sender.run(plan, -1)
        receiver.ask("notified_wait 0 0 -1")
        receiver.ask(f"check {target} 0 {LARGE} 7")
        receiver.ask(f"set {target} 0 {LARGE} 0")

    def check_loss(self, driver, options, lost, cut):
        """lost: 0 the rail of the chain, 1 that of a stripe. While cut(rail) is open, the rail leads nowhere."""
        pair = self.pair({**options, "rails.return_after": "200ms"})
        plan, target = self.put(pair, LARGE, "put", "notify 1 0", rail=driver)
        rails = list(self.shares("put"))
        self.start(pair, plan, target)
        kept = rails[1 - lost]
        with cut(rails[lost]):
            def moved():
                with contextlib.suppress(Failed):
                    pair[0].run(plan, 60000)
                return f"rail {rails[lost]} was lost, it continues on rail {kept}" in self.nodes[0].log_text()

            until(moved, "the plan has moved")
            while pair[1].ask("count 0 0") != ["0"]:
                pair[1].ask("notified_wait 0 0 -1")
            pair[1].ask(f"set {target} 0 {LARGE} 0")
            self.start(pair, plan, target)
            self.assertEqual(self.shares("put"), {})
            self.assertEqual(pair[0].receipt(plan)["name"], kept)
        until(lambda: len(self.shares("put")) == 2, "it is divided again")
        self.start(pair, plan, target)
        until(lambda: set(self.shares("put")) == set(rails), "by both rails")


class Explained(Checks):
    """What tcactl plan explain says of a large put, by rates that are known: tcp:a moves 2 bytes in 1 ns, tcp:b 1."""

    options = THREE_TCP
    COSTS = harness.costs({"tcp:a daemon": (1000, 1 / 2), "tcp:b daemon": (1000, 1)})

    def explained(self, **plan):
        """The first step's division, its candidates by rail, and the text."""
        with tempfile.NamedTemporaryFile("w", suffix=".cost") as costs:
            costs.write(self.COSTS)
            costs.flush()
            pair = self.pair({**self.options, "rails.calibration": "auto", "rails.calibration_file": costs.name})
            self.put(pair, plan.pop("shape", LARGE), "put", **plan)
        number = next(plan["id"] for plan in self.nodes[0].plans())
        division = self.steps("put")[0]["division"]
        by_rail = {candidate.pop("rail"): candidate for candidate in division.pop("candidates")} if division else {}
        return division, by_rail, self.nodes[0].tcactl_raw("plan", number).stdout

    def test_divided(self):
        division, rails, text = self.explained()
        third = LARGE // 3 // 4096 * 4096
        rest = LARGE - third
        self.assertEqual(rails, {
            "tcp:a": {"bytes": rest, "predicted_ns": 1000 + rest // 2, "alone_ns": 1000 + LARGE // 2, "why": "the chain's rail"},
            "tcp:b": {"bytes": third, "predicted_ns": 1000 + third, "alone_ns": 1000 + LARGE, "why": ""},
            "tcp:c": {"bytes": 0, "predicted_ns": None, "alone_ns": None, "why": "not calibrated"}})
        self.assertEqual(division, {"predicted_ns": 1000 + rest // 2 + 2000})
        self.assertIn("divided: 2.67 MiB over tcp:a, 1.33 MiB over tcp:b; predicted 1.40 ms\n", text)
        rows = [line.split() for line in text.splitlines()]
        self.assertIn(["RAIL", "SHARE", "PREDICTED", "ALONE", "WHY"], rows)
        self.assertIn("tcp:a 2.67 MiB 1.40 ms 2.10 ms the chain's rail".split(), rows)
        self.assertIn("tcp:b 1.33 MiB 1.40 ms 4.20 ms".split(), rows)
        self.assertIn("tcp:c - - - not calibrated".split(), rows)

    def test_whole(self):
        division, rails, text = self.explained(rail="tcp:b")
        self.assertEqual((division, rails), (None, {}))
        self.assertNotIn("SHARE", text)

    def test_too_small_to_divide(self):
        self.options = {**THREE_TCP, "rails.stripe": "64K"}
        _, rails, text = self.explained(shape=96 << 10)
        self.assertEqual({rail: (candidate["bytes"], candidate["why"]) for rail, candidate in rails.items()}, {
            "tcp:a": (96 << 10, "the chain's rail"), "tcp:b": (0, "dividing the put would not make it faster"),
            "tcp:c": (0, "not calibrated")})
        self.assertNotIn("divided", text)
        self.assertIn("SHARE", text)


class Stripes(Checks):
    def test_tcp(self):
        self.check_whole("tcp", *self.check_streams("tcp", TWO_TCP))

    def test_ofi(self):
        self.check_streams("ofi", OFI_TOO)

    def test_notified_after_the_last_stripe(self):
        self.check_notified("tcp", TWO_TCP, SMALL, SMALL // 2)

    def test_notified_after_the_last_gathered_stripe(self):
        """Which is complete here before it is there."""
        self.check_notified("ofi", OFI_TOO, f"{SMALL // 128}x128x256", f"{SMALL // 256}x128x256")

    def test_order(self):
        self.check_order("tcp", TWO_TCP)

    def test_overwrites(self):
        self.check_overwrites("ofi", {**OFI_TOO, "rail ofi:more.driver": "ofi", "rail ofi:more.provider": "tcp;ofi_rxm",
                                      "rail ofi:more.unprotected": "yes", "rail ofi:more.plane": "more"})

    def test_gaps(self):
        self.check_gaps("tcp", TWO_TCP)

    def cut_off(self, rail):
        return cut_off(self.nodes.nodes, rail)

    def test_loses_a_stripe(self):
        self.check_loss("tcp", TWO_TCP, 1, self.cut_off)

    def test_loses_its_rail(self):
        self.check_loss("tcp", TWO_TCP, 0, self.cut_off)


if __name__ == "__main__":
    harness.main()
