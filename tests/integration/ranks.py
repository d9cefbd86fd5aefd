"""Programs whose ranks check their own results: they print what is wrong and fail."""

import os
import secrets
import signal
import subprocess

import harness

SEED = int(os.environ.get("TCA_TEST_SEED", secrets.randbits(20)))
DEADLINE_S = 2 * harness.DEADLINE_S


class Ranks(harness.Case):
    group = "ranks"

    def start(self, cluster, places, words, **environment):
        """Starts one process per place, its node."""
        return [cluster[node].popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                    env={**os.environ, "TCA_SOCKET": cluster[node].socket, "TCA_GROUP": self.group,
                                         "TCA_RANK": str(rank), "TCA_SIZE": str(len(places)), **environment})
                for rank, node in enumerate(places)]

    def finish(self, processes, what, victim=None):
        """All must end with 0, the victim by SIGKILL, and print nothing."""
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

    def released(self, cluster):
        for node in cluster.nodes:
            harness.until(lambda node=node: node.counts()[0] == 0, "the daemon has ended all sessions")

    def ranks(self, cluster, places, words, victim=None, **environment):
        what = f"{' '.join(words[1:])}, {places}, {environment}"
        self.finish(self.start(cluster, places, words, **environment), what, victim)
        self.released(cluster)

    @staticmethod
    def is_stopped(process):
        with open(f"/proc/{process.pid}/stat", encoding="ascii", errors="replace") as stat:
            return stat.read().rsplit(") ", 1)[1][0] == "T"
