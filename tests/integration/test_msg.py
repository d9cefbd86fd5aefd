#!/usr/bin/env python3
"""Random messages between ranks, on one node and several, on every rail and in both seats, against sequential matching; a rank that
is killed, one that is stopped for a while, and one that sends anything."""

import os
import secrets
import signal
import subprocess

import harness

SEED = int(os.environ.get("TCA_TEST_SEED", secrets.randbits(20)))
ROUNDS = 6
DEADLINE_S = 2 * harness.DEADLINE_S


class Msg(harness.Case):
    def start(self, cluster, places, words, **environment):
        """One process per place, its node."""
        return [subprocess.Popen(words, stdout=subprocess.PIPE, text=True, preexec_fn=harness.die_with_us,
                                 env={**os.environ, "TCA_SOCKET": cluster[node].socket, "TCA_GROUP": "msg", "TCA_TIMEOUT": "50s",
                                      "TCA_RANK": str(rank), "TCA_SIZE": str(len(places)), **environment})
                for rank, node in enumerate(places)]

    def finish(self, cluster, processes, victim, what):
        """All must end as they should, without a word."""
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

    def msg(self, cluster, places, *fate, rounds=ROUNDS, victim=None, **environment):
        """Ranks of msg/msg.c."""
        words = [harness.program("msg"), str(SEED), str(rounds), *map(str, fate)]
        self.finish(cluster, self.start(cluster, places, words, **environment), victim, f"{places}, {environment}")

    def test_one_node(self):
        cluster = self.cluster()
        for ranks in (1, 2, 5, 8):
            with self.subTest(ranks=ranks):
                self.msg(cluster, [0] * ranks)

    def test_one_node_by_its_daemon(self):
        cluster = self.cluster()
        for ranks in (1, 3):
            with self.subTest(ranks=ranks):
                self.msg(cluster, [0] * ranks, TCA_SEAT="daemon")

    def test_several_nodes(self):
        cluster = self.cluster(3)
        for places in ([0, 1], [0, 1, 2, 2, 1]):
            with self.subTest(places=places):
                self.msg(cluster, places)

    def test_tcp(self):
        self.msg(self.cluster(2, options={"rails.enable": "shm tcp"}), [0, 1, 1], rounds=4)

    def test_ofi_within_a_node(self):
        self.msg(self.cluster(), [0, 0], rounds=4, TCA_RAIL="ofi")

    def test_errors(self):
        cluster = self.cluster(2)
        for places in ([0, 0], [0, 1]):
            with self.subTest(places=places):
                self.finish(cluster, self.start(cluster, places, [harness.program("msg-errors")]), None, str(places))

    def test_hostile_rank(self):
        cluster = self.cluster()
        self.finish(cluster, self.start(cluster, [0, 0], [harness.program("msg-hostile"), str(SEED)]), None, "hostile")

    def test_one_is_killed(self):
        cluster = self.cluster(2)
        for places in ([0] * 4, [0, 1, 0, 1]):
            with self.subTest(places=places):
                self.msg(cluster, places, "kill", 1, victim=1)

    def test_one_is_stopped(self):
        cluster = self.cluster(2)
        words = [harness.program("msg"), str(SEED), "3", "stop", "1"]
        processes = self.start(cluster, [0, 1, 0], words)
        harness.until(lambda: self.is_stopped(processes[1]), "the rank has stopped")
        processes[1].send_signal(signal.SIGCONT)
        self.finish(cluster, processes, None, "stopped")

    @staticmethod
    def is_stopped(process):
        with open(f"/proc/{process.pid}/stat", encoding="ascii", errors="replace") as stat:
            return stat.read().rsplit(") ", 1)[1][0] == "T"


if __name__ == "__main__":
    harness.main()
