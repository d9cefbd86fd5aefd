#!/usr/bin/env python3
"""What operators and health checks rely on: draining, exit codes, versions."""

import harness


class Draining(harness.Case):
    def test_open_sessions_work_on(self):
        cluster = self.cluster(2)
        worker, other = cluster.group([0, 1])
        newcomer = cluster.actor(0)
        drained = cluster[0].tcactl("drain", "on")
        self.assertEqual((drained["state"], drained["sessions"]), ("draining", 1))
        with self.refused("-EBUSY", "node0 is draining", "drain off"):
            newcomer.ask("open new 0 1 -2")

        # Memory, commits and starts, to itself, to others and from others.
        source, _ = worker.alloc(4096)
        target, _ = worker.alloc(4096)
        away, _ = other.alloc(4096)
        worker.ask(f"fill {source} 0 4096 7")
        for handle, checker, region in ((worker.handle(target), worker, target), (other.handle(away), other, away)):
            plan = worker.plan(f"put {source} 0 4096 {handle} 0 4096")
            worker.ask(f"start {plan}")
            worker.ask(f"wait {plan} -2")
            harness.until(lambda: self.arrived(checker, region, 7), "the data arrives")
        other.ask(f"fill {away} 0 4096 9")
        plan = other.plan(f"put {away} 0 4096 {worker.handle(target)} 0 4096", "notify 0 1")
        other.ask(f"start {plan}")
        worker.ask("notified_wait 1 1 -2")
        worker.ask(f"check {target} 0 4096 9")

        cluster[0].tcactl("drain", "off")
        newcomer.ask("open new 0 1 -2")

    @staticmethod
    def arrived(actor, region, seed):
        try:
            return actor.ask(f"check {region} 0 4096 {seed}") is not None
        except harness.Failed:
            return False


if __name__ == "__main__":
    harness.main()
