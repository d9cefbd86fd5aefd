"""Shared by the tests of lanes: pairs of processes that copy in a given mode."""

import harness

SHARED = ("pull", "half", "ring")
WAYS = ("push", *SHARED, "any")


class Way(harness.Case):
    def pair(self, cluster, way, name="job", **environment):
        return cluster.group([0, 0], name=name, TCA_COPY=way, **environment)

    def one_way(self, sender, receiver, shape, seed=5, slot=0, region_bytes=1 << 20):
        """A plan from a region that holds the seed's bytes; plan, source, target."""
        source, _ = sender.alloc(region_bytes)
        target, _ = receiver.alloc(region_bytes)
        sender.ask(f"fill {source} 0 {shape} {seed}")
        return sender.plan(f"put {source} 0 {shape} {receiver.handle(target)} 0 {shape}", f"notify 1 {slot}"), source, target
