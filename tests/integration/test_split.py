#!/usr/bin/env python3
"""Groups of some ranks: random nested splits on one node and several, used by plans, collective operations and halo exchanges; many that
are freed at once; and the death of a rank."""

import harness
from ranks import SEED, Ranks, several_each


class Split(Ranks):
    group = "split"

    def split(self, cluster, places, rounds=2, again=20, victim=None, **environment):
        words = [harness.program("groups-split"), str(SEED), str(rounds), str(again)] + ([str(victim)] if victim is not None else [])
        self.ranks(cluster, places, words, victim, TCA_TIMEOUT="50s", **environment)

    def test_one_node(self):
        cluster = self.cluster(options={"rails.enable": "shm tcp"})
        for ranks in (1, 2, 7):
            with self.subTest(ranks=ranks):
                self.split(cluster, [0] * ranks)

    def test_several_nodes(self):
        cluster = self.cluster(4, subclusters=2, options={"rails.enable": "shm tcp"})
        for environment in ({}, {"TCA_SEAT": "daemon"}):
            places = several_each(4, 9)
            with self.subTest(places=places, environment=environment):
                self.split(cluster, places, rounds=harness.rounds(1), **environment)

    def test_made_and_freed_again(self):
        """Nothing is left of them: neither memory nor anything that limits how many can be made."""
        cluster = self.cluster(3, options={"rails.enable": "shm tcp"})
        self.split(cluster, several_each(3, 5), rounds=0, again=2000)

    def test_a_rank_ends(self):
        cluster = self.cluster(4, options={"rails.enable": "shm tcp"})
        self.split(cluster, several_each(4, 10), rounds=0, again=0, victim=4)


if __name__ == "__main__":
    harness.main()
