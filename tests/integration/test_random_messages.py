"""Random messages between the ranks of an MPI program: as MPI determines them, bare and under tca-mpi."""

import os
import random
import re
import unittest

import harness

SCENES = 25


class RandomMessages(harness.Case):
    def play(self, mpi, ranks, seed, node=None, bare=False):
        """Returns the digests of the scenes; with a node, under tca-mpi, also whether tcad carried messages."""
        name = f"mpi-random-{mpi}"
        if "TCA_TEST_" + name.replace("-", "_").upper() not in os.environ:
            self.skipTest(f"built without {mpi} (tools/setup --all)")
        environment = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                       "OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_MCA_mpi_yield_when_idle": "1", "TCA_MPI_REPORT": "1"}
        command = [f"mpiexec.{mpi}", "-n", str(ranks)]
        if node:
            environment["TCA_SOCKET"] = node.socket
            command.append(harness.program("tca-mpi"))
        if bare:
            environment["RANDOM_MESSAGES_BARE"] = "1"
        command += [harness.program(name), str(seed), str(SCENES)]
        result = harness.run(command, node.process if node else None, env=environment)
        self.assertEqual(result.returncode, 0, f"{command}, {environment['TCA_SOCKET'] if node else 'bare'}:\n{result.stderr}")
        return result.stdout.splitlines(), bool(re.search(r"received by tcad +[1-9]", result.stderr))

    def test_random_messages(self):
        """They arrive as they were sent, and have the same digests as with the MPI alone, as far as that makes no mistakes."""
        node = self.cluster()[0]
        for mpi in ("openmpi", "mpich"):
            for _ in range(harness.rounds(2)):
                seed, ranks = random.randrange(1 << 32), random.randrange(2, 6)
                with self.subTest(mpi=mpi, seed=seed, ranks=ranks):
                    alone, _ = self.play(mpi, ranks, seed, bare=True)
                    self.assertEqual(len(alone), SCENES)
                    carried, by_tcad = self.play(mpi, ranks, seed, node, bare=True)
                    self.assertEqual(carried, alone)
                    if by_tcad:  # it makes none of those mistakes
                        self.play(mpi, ranks, seed, node)


if __name__ == "__main__":
    unittest.main()
