#!/usr/bin/env python3
"""All ranks of a job join at the same moment, again and again: none is dropped. TCA_TEST_RUSH_RANKS is how many there are on one
node, and TCA_TEST_ROUNDS=25 repeats it a hundred times."""

import os
import subprocess

import harness

RANKS = int(os.environ.get("TCA_TEST_RUSH_RANKS", "64" if harness.SLOW == 1 else "32"))
ROUNDS = harness.rounds(4)


class Rush(harness.Case):
    def rush(self, cluster, ranks):
        """So many on each node. Its coordinator is any of them."""
        size = len(cluster.nodes) * ranks
        processes = [node.popen([harness.program("groups-rush"), *map(str, (first * ranks, ranks, size, ROUNDS))], stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True, env={**os.environ, "TCA_SOCKET": node.socket})
                     for first, node in enumerate(cluster.nodes)]
        for process in processes:
            said, _ = process.communicate(timeout=max(4, ROUNDS // 4) * harness.DEADLINE_S)
            self.assertEqual((process.returncode, said.strip()), (0, str(ranks * ROUNDS)))
        for node in cluster.nodes:
            harness.until(lambda node=node: node.counts() == (0, 0, 0), "the daemon has ended all sessions")

    def test_one_node(self):
        """Sessions that have ended, or are about to, are not in the way of the next ones, whose hellos wait for that."""
        self.rush(self.cluster(1, options={"limits.sessions_per_user": str(RANKS)}), RANKS)

    def test_sixteen_nodes(self):
        self.rush(self.cluster(16), max(RANKS // 16, 2))

    def test_few_of_a_node(self):
        """Nobody else comes on it."""
        for ranks in 1, 3:
            self.rush(self.cluster(1), ranks)

    def test_some_nodes(self):
        for ranks in 1, 2, 16:
            self.rush(self.cluster(3), ranks)


if __name__ == "__main__":
    harness.main()
