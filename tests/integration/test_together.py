#!/usr/bin/env python3
"""Plans that start together divide the rails among them, so that all of them end as early as possible by predicted cost."""

import tempfile

import harness
from harness import until
from ranks import Ranks

RATES = {"tcp:a": 2, "tcp:b": 1}  # bytes in 1 ns
LATENCY_NS = 1000
COSTS = harness.costs({f"{rail} daemon": (LATENCY_NS, 1 / rate) for rail, rate in RATES.items()})
OPTIONS = {"rails.enable": "shm", "rails.calibration": "auto", "rails.stripe": "1G",
           **{f"rail {name}.{key}": value for name in RATES
              for key, value in (("driver", "tcp"), ("plane", name[-1]), ("security", "plain"))}}


def cost(rail, size):
    return LATENCY_NS + size // RATES[rail]


def rails_of(sizes):
    """For each put, in the order of their commits: the rail over which it ends first."""
    ends, rails = dict.fromkeys(RATES, 0), []
    for size in sizes:
        rails.append(min(RATES, key=lambda rail, size=size: ends[rail] + cost(rail, size)))
        ends[rails[-1]] += cost(rails[-1], size)
    return rails


class Together(Ranks):
    group = "halo"

    def nodes(self, count):
        costs = tempfile.NamedTemporaryFile("w", suffix=".cost")  # daemons may read it when they have been ready for a while
        self.addCleanup(costs.close)
        costs.write(COSTS)
        costs.flush()
        return self.cluster(count, options={**OPTIONS, "rails.calibration_file": costs.name})

    def actors(self, cluster):
        """The first of them, on node 0, its memory, and the others' memory."""
        first, *others = cluster.group([0, 1, 2], TCA_TUNE="off")
        return first, first.alloc(1 << 20), [other.handle(other.alloc(1 << 20)) for other in others]

    @staticmethod
    def commit(actors, sizes, together, name="put"):
        """Alternately to both other nodes."""
        first, source, targets = actors
        return [first.plan(f"put {source} 0 {size} {targets[i % 2]} 0 {size}", name=f"{name}{i}", together=together)
                for i, size in enumerate(sizes)]

    @staticmethod
    def rails(cluster, count, name="put"):
        rails = {plan["name"]: plan["rail"] for plan in cluster[0].plans()}
        return [rails[f"{name}{i}"] for i in range(count)]

    def test_rails_are_divided(self):
        sizes = [60000, 60000, 30000, 30000, 30000, 2000, 2000, 8]
        expected = rails_of(sizes)
        self.assertEqual(set(expected), set(RATES))
        cluster = self.nodes(3)
        actors = self.actors(cluster)
        self.commit(actors, sizes, 0, "alone")
        self.commit(actors, sizes, 1, "others")
        self.commit(actors, sizes, 2)
        self.assertEqual(self.rails(cluster, len(sizes), "alone"), ["tcp:a"] * len(sizes))
        self.assertEqual(self.rails(cluster, len(sizes), "others"), expected)
        self.assertEqual(self.rails(cluster, len(sizes)), expected)

    def test_explained(self):
        cluster = self.nodes(3)
        actors = self.actors(cluster)
        self.commit(actors, [60000, 60000], 1)
        number = next(plan["id"] for plan in cluster[0].plans() if plan["name"] == "put1")
        chosen, = (each for each in cluster[0].tcactl("plan", number)["chains"][0]["candidates"] if each["chosen"])
        other, = (each for each in cluster[0].tcactl("plan", number)["chains"][0]["candidates"]
                  if (each["rail"], each["seat"]) == ("tcp:a", "daemon"))
        self.assertEqual((chosen["rail"], chosen["behind_ns"], chosen["why"]), ("tcp:b", 0, "ends first, behind what starts together with it"))
        self.assertEqual((other["predicted_ns"], other["behind_ns"], other["why"]),
                         (cost("tcp:a", 60000), cost("tcp:a", 60000),
                          "lower predicted cost, but ends later, behind what starts together with it"))

    def test_released_plans_do_not_count(self):
        cluster = self.nodes(3)
        actors = self.actors(cluster)
        first, _, _ = actors
        plan, = self.commit(actors, [60000], 1)
        first.ask(f"freeplan {plan}")
        self.commit(actors, [60000], 1)
        self.assertEqual(self.rails(cluster, 1), ["tcp:a"])

    def test_halo_exchange(self):
        """Each rank of a square has two neighbours: it sends to one of them over each rail, from both buffers."""
        cluster = self.nodes(4)
        processes = self.start(cluster, [0, 1, 2, 3], [harness.program("laplace"), "--size", "1000", "--steps", "1000000"], TCA_TUNE="off")
        for node in cluster.nodes:
            until(lambda node=node: sum(plan["starts"] > 0 for plan in node.plans()) == 4, "the exchange goes on")
            plans = node.plans()
            for of_buffer in (plans[:2], plans[2:]):
                self.assertEqual({plan["rail"] for plan in of_buffer}, set(RATES), plans)
        for process in processes:
            process.kill()
            process.communicate()
        self.released(cluster)


if __name__ == "__main__":
    harness.main()
