#!/usr/bin/env python3
"""The cost of the largest legal requests for others in the engine: it accepts starts and serves drivers between slices of its
work."""

import os

import hostile
import wire
import harness  # the path to it is set by hostile

MANY = 65536  # steps: the most of a plan
MIB = 1 << 20


def metric(node, name, **labels):
    families = {family["name"]: family for family in node.tcactl("stats")["families"]}
    return sum(sample["value"] for sample in families[name]["samples"]
               if all(sample["labels"][key] == value for key, value in labels.items()))


def loop_ns(node):
    """CPU time of the loop's thread so far, regardless of other load."""
    with open(f"/proc/{node.process.pid}/schedstat", encoding="ascii") as stat:
        return int(stat.read().split()[0])


def thread_ns(node, name):
    """What a thread has computed so far."""
    for tid in os.listdir(f"/proc/{node.process.pid}/task"):
        with open(f"/proc/{node.process.pid}/task/{tid}/comm", encoding="ascii") as comm:
            if comm.read().strip() != name:
                continue
        with open(f"/proc/{node.process.pid}/task/{tid}/schedstat", encoding="ascii") as stat:
            return int(stat.read().split()[0])
    raise AssertionError(f"no thread {name}")


def scattered(blocks):
    """A layout of blocks of 8 bytes at irregular distances."""
    pairs = [(16 * i + 8 * (i * i % 7 % 2), 8) for i in range(blocks)]
    end = pairs[-1][0] + 8
    return wire.program([wire.op(wire.LIST, count=blocks, stride=8)], pairs=pairs, size=8 * blocks, blocks=blocks, lower=pairs[0][0],
                        upper=end, lb=pairs[0][0], ub=end)


class Turns(hostile.HostileCase):
    def pair(self, rail):
        """Two nodes that let a user have all this, however small the machine is, and a put over the rail by a client of the
        first."""
        cluster = self.cluster(2, options={"limits.bytes_per_user": "4G", "limits.bytes": "4G", "rails.enable": f"shm {rail}".strip()})
        sender, receiver = [self.open(node) for node in cluster.nodes]
        region, _, handle = sender.alloc(MIB)
        target, _, far = receiver.alloc(MIB)
        return cluster, sender, (receiver, target), wire.put(region, far if rail else handle, wire.contiguous(8), b"")

    def slices(self, what, node, work):
        before = metric(node, "tcad_engine_slices")
        result = work()
        count = metric(node, "tcad_engine_slices") - before
        print(f"{what}: {count:.0f} slices; longest so far {metric(node, 'tcad_engine_longest_calls_seconds') * 1e3:.1f} ms")
        return count, result

    def test_many_puts(self):
        """A plan is compiled and released in slices; transfers of others continue."""
        for rail in ("", "tcp"):
            cluster, client, _, put = self.pair(rail)
            with self.undisturbed(cluster):
                count, (_, body, _) = self.slices(f"{MANY} puts, commit", cluster[0], lambda: client.ask(wire.commit([put] * MANY, seat=2)))
                self.assertGreater(count, 3, "compiled at a stretch")
                plan = body.get(1, [0])[0]
                count, _ = self.slices(f"{MANY} puts, release", cluster[0],
                                       lambda: client.ask(wire.blob(wire.PLAN_RELEASE, wire.number(1, plan))))
                self.assertGreater(count, 1, "released at a stretch")

    def test_a_long_layout(self):
        """One layout cannot be compiled in slices: the worker does it, at both ends, while the engine goes on."""
        blocks = 1 << 18
        layout = scattered(blocks)
        for rail in ("", "tcp"):
            cluster, client, (receiver, _), _ = self.pair(rail)
            node = cluster[1 if rail else 0]
            region, _, handle = client.alloc(16 * blocks)
            if rail:
                _, _, handle = receiver.alloc(16 * blocks)
            before = [[thread_ns(at, name) for at in (cluster[0], node)] for name in ("tcad-engine", "tcad-worker")]
            kind, body, _ = client.ask(wire.commit([wire.put(region, handle, layout, layout)], seat=2))
            self.assertEqual(kind, wire.PLAN_COMMITTED, body)
            costs = [[thread_ns(at, name) - start for at, start in zip((cluster[0], node), starts)]
                     for name, starts in zip(("tcad-engine", "tcad-worker"), before)]
            print(f"{blocks} blocks {rail}: engines {costs[0][0] / 1e6:.1f} and {costs[0][1] / 1e6:.1f} ms, "
                  f"workers {costs[1][0] / 1e6:.1f} and {costs[1][1] / 1e6:.1f} ms; longest so far "
                  f"{metric(node, 'tcad_engine_longest_calls_seconds') * 1e3:.1f} ms")
            for engine, worker in zip(*costs):
                self.assertLess(5 * engine, worker, "compiled on the engine")

    def test_the_end_meanwhile(self):
        """The client, or its target, ends at any moment of a commit: nothing is left of the plan."""
        cluster, client, (receiver, target), put = self.pair("tcp")
        commit = wire.commit([put] * (MANY // 4), seat=2)
        slices = metric(cluster[0], "tcad_engine_slices")

        def somewhere():
            """The next slice of the compilation, or of the release of the last plan."""
            nonlocal slices
            harness.until(lambda: metric(cluster[0], "tcad_engine_slices") > slices, "a slice")
            slices = metric(cluster[0], "tcad_engine_slices")

        for _ in range(5):
            other = self.open(cluster[0])
            region, _, _ = other.alloc(4096)
            _, _, handle = receiver.alloc(4096)
            other.send(wire.commit([wire.put(region, handle, wire.contiguous(8), b"")] * (MANY // 4), seat=2))
            somewhere()
            other.close()
        client.send(commit)
        somewhere()
        receiver.ask(wire.blob(wire.REGION_FREE, wire.number(1, target)))
        tag, kind, _, _ = client.receive()
        while kind == wire.EVENT:
            tag, kind, _, _ = client.receive()
        self.assertEqual(tag, client.tag)
        self.assertIn(kind, (wire.PLAN_COMMITTED, wire.FAILURE))
        client.close()
        harness.until(lambda: cluster[0].counts() == (0, 0, 0), "nothing is left")
        self.assert_well(cluster[0])

    def end(self, count, how):
        """The cost for each of two nodes when sessions of the first with this many plans to the second end, or when a node ends."""
        cluster, client, _, put = self.pair("tcp")
        for first in range(0, count, 20):  # at a time
            for _ in range(20):
                client.send(wire.commit([put], seat=2))
            for _ in range(20):
                self.assertEqual(client.receive()[1], wire.PLAN_COMMITTED)
        self.assertGreater(metric(cluster[1], "tcad_user_bytes", kind="bindings"), 0)
        before = [loop_ns(node) for node in cluster.nodes]
        if how == "node":
            cluster[0].kill()
        client.close()
        harness.until(lambda: metric(cluster[1], "tcad_user_bytes", kind="bindings") == 0, "nothing is bound any more")
        if how == "session":
            harness.until(lambda: cluster[0].counts() == (0, 0, 0), "its plans are gone")
        costs = [loop_ns(node) - start for node, start in zip(cluster.nodes, before) if node.process]
        print(f"{count} plans end with their {how}: {', '.join(f'{cost / 1e6:.1f}' for cost in costs)} ms of the loops; longest turn "
              f"{max(metric(node, 'tcad_loop_longest_turn_seconds') for node in cluster.nodes if node.process) * 1e3:.1f} ms")
        return costs

    def test_many_plans_end(self):
        for how in ("session", "node"):
            few, many = self.end(500, how), self.end(4000, how)
            for less, more in zip(few, many):
                self.assertLess(more, 3 * 8 * less, "it grows much faster than what ends")


if __name__ == "__main__":
    harness.main()
