#!/usr/bin/env python3
"""Everybody puts into everybody's memory at once: random layouts, memory of every kind, one node and several, every seat."""

import os
import secrets
import signal
import subprocess
import unittest

import harness

SEED = int(os.environ.get("TCA_TEST_SEED", secrets.randbits(20)))


class Mesh(harness.Case):
    def mesh(self, places, seat, sets, starts, victim=None, name="mesh"):
        """One process of mesh (mesh/mesh.c) per place, its node: all must end as they should."""
        cluster = self.cluster(1 + max(places))
        words = [harness.program("mesh"), str(sets), str(starts), str(SEED), seat] + ([str(victim)] if victim is not None else [])
        processes = [subprocess.Popen(words, stdout=subprocess.PIPE, text=True, preexec_fn=harness.die_with_us,
                                      env={**os.environ, "TCA_SOCKET": cluster[node].socket, "TCA_GROUP": name,
                                           "TCA_RANK": str(rank), "TCA_SIZE": str(len(places))})
                     for rank, node in enumerate(places)]
        wrong = []
        for rank, process in enumerate(processes):
            try:
                said, _ = process.communicate(timeout=harness.DEADLINE_S)
            except subprocess.TimeoutExpired:
                process.kill()
                said = f"it hung; {process.communicate()[0]}"
            if process.returncode != (-signal.SIGKILL if rank == victim else 0) or said:
                wrong.append(f"rank {rank} of {places}, seat {seat}, seed {SEED} ended with {process.returncode}: {said}")
        self.assertFalse(wrong, "\n".join(wrong))
        for node in range(1 + max(places)):
            harness.until(lambda node=node: cluster[node].counts()[0] == 0, "the daemon has let go of all sessions")

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
