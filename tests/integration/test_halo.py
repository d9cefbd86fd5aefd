#!/usr/bin/env python3
"""Random halo exchanges between slow and fast ranks, on one node and several, on every rail and in every seat; the death of
a rank; and errors."""

import signal

import boards
import harness
from ranks import RANDOM, SEED, Ranks, any_places, several_each

ROUNDS, STEPS = harness.rounds(5), 10


class Halo(Ranks):
    group = "halo"

    def halo(self, cluster, places, rounds=ROUNDS, victim=None, late=False, **environment):
        """Ranks of halo/halo.c."""
        words = [harness.program("halo"), str(SEED), str(rounds), str(STEPS)] + ([str(victim)] if victim is not None else [])
        self.ranks(cluster, places, words, victim, late, TCA_TIMEOUT="50s", **environment)

    def test_one_node(self):
        cluster = self.cluster()
        for ranks in (1, 2, 3, 6, 8):
            with self.subTest(ranks=ranks):
                self.halo(cluster, [0] * ranks)

    def test_one_node_by_its_daemon(self):
        cluster = self.cluster()
        for ranks in (1, 2, 6):
            with self.subTest(ranks=ranks):
                self.halo(cluster, [0] * ranks, TCA_SEAT="daemon")

    def test_several_nodes(self):
        """Also with a rank that dies, between nodes that only one rail connects."""
        for rail in ("tcp", "ofi"):
            cluster = self.cluster(4, subclusters=2, options={"rails.enable": f"shm {rail}"})
            with self.subTest(rail=rail):
                self.halo(cluster, [0, 1])
                self.one_dies(cluster, several_each(4, 8))
                self.one_dies(cluster, several_each(4, 8), TCA_SEAT="daemon")

    def one_dies(self, cluster, places, **environment):
        victim = RANDOM.randrange(len(places))
        with self.subTest(places=places, victim=victim, environment=environment, seed=SEED):
            self.halo(cluster, places, rounds=1, victim=victim, **environment)

    def test_sixteen_nodes(self):
        cluster = self.cluster(16, options={"rails.enable": RANDOM.choice(("shm tcp", "shm tcp ofi"))})
        for places in (list(range(16)), *(any_places() for _ in range(harness.rounds(1)))):
            with self.subTest(places=places, seed=SEED):
                self.halo(cluster, places, late=True)
        self.one_dies(cluster, several_each(16, 24), TCA_SEAT=RANDOM.choice(("any", "daemon")))

    def test_ofi_within_a_node(self):
        self.halo(self.cluster(2, options={"rails.enable": "shm ofi"}), [0, 0, 1, 1], TCA_RAIL="ofi")

    def test_boards(self):
        cluster = boards.Ring(4, {"rails.calibration": "off"})
        self.addCleanup(self.take_down, cluster)
        self.halo(cluster.up(), [0, 1, 2, 3], rounds=4, TCA_RAIL="peach2")
        self.one_dies(cluster, [0, 1, 2, 3, 0, 1, 2, 3], PREFER="peach2")

    def test_a_cable_is_pulled(self):
        """A rank whose data does not arrive gets an error, although its neighbour is alive, but stopped."""
        for turn in range(harness.rounds(2)):
            cluster = boards.Ring(2, {"rails.calibration": "off"})
            self.addCleanup(self.take_down, cluster)
            words = [harness.program("halo"), str(SEED + turn), "1", "0", "2"]
            processes = self.start(cluster.up(), [0, 1], words, TCA_RAIL="peach2")
            harness.until(lambda both=processes: all(self.is_stopped(rank) for rank in both), "both ranks have stopped")
            cluster.hand("unplug", 0, "E", "W")
            processes[0].send_signal(signal.SIGCONT)
            self.finish(processes[:1], f"cut, turn {turn}")
            processes[1].send_signal(signal.SIGCONT)
            self.finish(processes, f"cut, turn {turn}")

    def test_errors(self):
        for places in ([0, 0], [0, 1]):
            with self.subTest(places=places):
                self.ranks(self.cluster(1 + max(places)), places, [harness.program("halo-errors")])

    def test_one_is_killed(self):
        cluster = self.cluster()
        for seat in ("any", "daemon"):
            self.one_dies(cluster, [0] * 6, TCA_SEAT=seat)


if __name__ == "__main__":
    harness.main()
