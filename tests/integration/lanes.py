"""Shared by the tests of lanes: pairs of processes that copy in a given mode."""

import harness

SHARED = ("pull", "half", "ring")
WAYS = ("push", *SHARED, "any")


class Way(harness.Case):
    def pair(self, cluster, way, name="job", **environment):
        return cluster.group([0, 0], name=name, TCA_COPY=way, **environment)

    def one_way(self, sender, receiver, shape, seed=5, slot=0, region_bytes=1 << 20):
        """A plan from a region that holds the seed's bytes; plan, source, target."""
        plan = sender.put_plan(receiver, shape, f"notify 1 {slot}", region_bytes=region_bytes)
        sender.ask(f"fill {plan[1]} 0 {shape} {seed}")
        return plan
