#!/usr/bin/env python3
"""Random collective operations between slow and fast ranks, on one node and several, on every rail and in every seat; the
death of a rank; and errors."""

import os
import secrets
import signal
import subprocess

import boards
import harness

SEED = int(os.environ.get("TCA_TEST_SEED", secrets.randbits(20)))
ROUNDS, STARTS = 3, 5
DEADLINE_S = 2 * harness.DEADLINE_S


class Coll(harness.Case):
    def coll(self, cluster, places, rounds=ROUNDS, victim=None, **environment):
        """Ranks of coll/coll.c, one per place, its node. All must end as they should, without a word."""
        words = [harness.program("coll"), str(SEED), str(rounds), str(STARTS)] + ([str(victim)] if victim is not None else [])
        self.ranks(cluster, places, words, victim, **environment)

    def ranks(self, cluster, places, words, victim=None, **environment):
        self.finish(cluster, self.start(cluster, places, words, **environment), f"{places}, {environment}", victim)

    @staticmethod
    def start(cluster, places, words, **environment):
        return [subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, preexec_fn=harness.die_with_us,
                                 env={**os.environ, "TCA_SOCKET": cluster[node].socket, "TCA_GROUP": "coll", "TCA_RANK": str(rank),
                                      "TCA_SIZE": str(len(places)), "TCA_TIMEOUT": "50s", **environment})
                for rank, node in enumerate(places)]

    def finish(self, cluster, processes, what, victim=None):
        wrong = []
        for rank, process in enumerate(processes):
            try:
                said, _ = process.communicate(timeout=DEADLINE_S)
            except subprocess.TimeoutExpired:
                process.kill()
                said = f"it hung; {process.communicate()[0]}"
            if process.returncode != (-signal.SIGKILL if rank == victim else 0) or said:
                wrong.append(f"rank {rank} of {what}, seed {SEED} ended with {process.returncode}: {said}")
        self.assertFalse(wrong, "\n".join(wrong))
        for node in cluster.nodes:
            harness.until(lambda node=node: node.counts()[0] == 0, "the daemon has let go of all sessions")

    def test_one_node(self):
        cluster = self.cluster()
        for ranks in (1, 3, 8):
            with self.subTest(ranks=ranks):
                self.coll(cluster, [0] * ranks)

    def test_one_node_by_its_daemon(self):
        cluster = self.cluster()
        for ranks in (2, 6):
            with self.subTest(ranks=ranks):
                self.coll(cluster, [0] * ranks, TCA_SEAT="daemon")

    def test_several_nodes(self):
        cluster = self.cluster(4, subclusters=2)
        for places, rail in (([0, 1], "tcp"), ([0, 0, 1, 1, 2, 3], "ofi"), ([0, 1, 2, 3], "tcp")):
            with self.subTest(places=places, rail=rail):
                self.coll(cluster, places, PREFER=rail)

    def test_by_thread(self):
        cluster = self.cluster(2)
        for places in ([0] * 4, [0, 1, 0, 1]):
            with self.subTest(places=places):
                self.coll(cluster, places, THREAD="1")

    def test_boards(self):
        cluster = boards.Ring(4, {"rails.calibration": "off"})
        self.addCleanup(self.take_down, cluster)
        self.coll(cluster.up(), [0, 1, 2, 3], rounds=2, TCA_RAIL="peach2")

    def test_neighbours(self):
        cluster = self.cluster(2)
        for places, seat in (([0] * 4, "any"), ([0] * 3, "daemon"), ([0, 1, 0, 1], "any")):
            with self.subTest(places=places, seat=seat):
                self.ranks(cluster, places, [harness.program("coll-neighbours"), str(SEED), "5", "4"], TCA_SEAT=seat)

    def test_all_but_one_are_stopped(self):
        """In the daemons' seat, data moves on through ranks whose processes do nothing."""
        for places in ([0] * 4, [0, 1, 0, 1]):
            cluster = self.cluster(1 + max(places))
            ranks = self.start(cluster, places, [harness.program("coll-session")])
            for name in ("broadcast, chain", "allreduce, ring", "reduce, chain", "allreduce, direct"):
                self.assertEqual(ranks[0].stdout.readline(), "complete\n")
                self.assertIn(name, {plan["name"] for plan in cluster[0].plans()})
                for rank in ranks[1:]:
                    harness.until(lambda rank=rank: self.is_stopped(rank), "the others have stopped")
                    rank.send_signal(signal.SIGCONT)
                ranks[0].stdin.write("go on\n")
                ranks[0].stdin.flush()
            self.finish(cluster, ranks, f"{places}, stopped")

    @staticmethod
    def is_stopped(process):
        with open(f"/proc/{process.pid}/stat", encoding="ascii", errors="replace") as stat:
            return stat.read().rsplit(") ", 1)[1][0] == "T"

    def test_errors(self):
        for places in ([0, 0], [0, 1]):
            with self.subTest(places=places):
                self.ranks(self.cluster(1 + max(places)), places, [harness.program("coll-errors")])

    def test_one_is_killed(self):
        cluster = self.cluster(2)
        for places, environment in (([0] * 5, {}), ([0] * 5, {"TCA_SEAT": "daemon"}), ([0, 1] * 3, {}), ([0, 1] * 2, {"THREAD": "1"})):
            with self.subTest(places=places, environment=environment):
                self.coll(cluster, places, rounds=1, victim=2, **environment)


if __name__ == "__main__":
    harness.main()
