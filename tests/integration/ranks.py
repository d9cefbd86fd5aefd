"""Programs whose ranks check their own results: they print what is wrong and fail."""

import os
import random
import secrets
import signal
import subprocess

import harness

SEED = int(os.environ.get("TCA_TEST_SEED", secrets.randbits(20)))
RANDOM = random.Random(SEED)
DEADLINE_S = 2 * harness.DEADLINE_S


def any_places(nodes=16, ranks_max=16):
    """The nodes of random ranks: one or several on each of some nodes, in random order."""
    used = RANDOM.sample(range(nodes), RANDOM.randint(1, min(nodes, ranks_max)))
    places = used + RANDOM.choices(used, k=RANDOM.randint(0, ranks_max - len(used)))
    RANDOM.shuffle(places)
    return places


def several_each(nodes, ranks):
    """The nodes of ranks: at least one on each node, in random order."""
    places = list(range(nodes)) + RANDOM.choices(range(nodes), k=ranks - nodes)
    RANDOM.shuffle(places)
    return places


class Ranks(harness.Case):
    group = "ranks"

    def start(self, cluster, places, words, late=False, **environment):
        """Starts one process per place, its node, in random order; late: the last one when all others have their sessions."""
        processes, order = {}, RANDOM.sample(range(len(places)), len(places))
        for rank in order:
            if late and rank == order[-1]:
                nodes = [cluster[node] for node in set(places)]
                harness.until(lambda: sum(node.counts()[0] for node in nodes) == len(places) - 1, "the others wait")
            node = cluster[places[rank]]
            processes[rank] = node.popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                         env={**os.environ, "TCA_SOCKET": node.socket, "TCA_GROUP": self.group,
                                              "TCA_RANK": str(rank), "TCA_SIZE": str(len(places)), **environment})
        return [processes[rank] for rank in range(len(places))]

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

    def ranks(self, cluster, places, words, victim=None, late=False, **environment):
        what = f"{' '.join(words[1:])}, {places}, {environment}"
        self.finish(self.start(cluster, places, words, late, **environment), what, victim)
        self.released(cluster)

    @staticmethod
    def is_stopped(process):
        with open(f"/proc/{process.pid}/stat", encoding="ascii", errors="replace") as stat:
            return stat.read().rsplit(") ", 1)[1][0] == "T"
