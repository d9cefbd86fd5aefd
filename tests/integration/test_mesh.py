#!/usr/bin/env python3
"""All ranks put into each other's memory at once: random layouts, memory of every kind, one node and several, every seat."""

import harness
import ranks


class Mesh(ranks.Ranks):
    RAILS = "shm ofi"

    def mesh(self, places, seat, sets, starts, victim=None):
        """One process of mesh (mesh/mesh.c) per place, its node."""
        words = [harness.program("mesh"), str(sets), str(starts), str(ranks.SEED), seat]
        self.ranks(self.cluster(1 + max(places)), places, words + ([str(victim)] if victim is not None else []), victim)

    def test_one_node(self):
        self.mesh([0] * 8, "any", sets=4, starts=4)

    def test_one_node_by_its_daemon(self):
        self.mesh([0] * 8, "daemon", sets=3, starts=4)

    def test_several_nodes(self):
        self.mesh([0, 1, 2, 3] * 2, "any", sets=3, starts=4)

    def test_several_nodes_by_their_daemons(self):
        self.mesh([0, 0, 0, 1, 1, 1, 2, 2], "daemon", sets=2, starts=4)

    def test_one_is_killed(self):
        for places, seat in (([0] * 8, "any"), ([0] * 8, "daemon"), ([0, 1] * 4, "any")):
            with self.subTest(places=places, seat=seat):
                self.mesh(places, seat, sets=2, starts=3, victim=3)


if __name__ == "__main__":
    harness.main()
