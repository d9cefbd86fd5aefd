#!/usr/bin/env python3
"""`import tca`: what it promises, and random slices of arrays against numpy, between processes of a node and of several."""

import os
import re
import shutil
import subprocess
import unittest

import harness
from ranks import DEADLINE_S, RANDOM, SEED, Ranks, several_each

CALLS = "tests/integration/python/calls.py"


class Python(Ranks):
    group = "python"

    def start_python(self, cluster, places, name, *words):
        if not os.environ.get("TCA_TEST_PYTHON_MODULE"):
            raise unittest.SkipTest("the Python module was not built: it needs python3-cffi, python3-numpy and python3-dev")
        program = os.path.join(os.environ["TCA_TEST_SOURCE"], name)
        # Several threads of numpy's library would only be in each other's way.
        return self.start(cluster, places, [os.environ["TCA_TEST_PYTHON"], "-W", "error", program, *map(str, words)],
                          PYTHONPATH=os.environ["TCA_TEST_PYTHON_MODULE"], OPENBLAS_NUM_THREADS="1", TCA_TIMEOUT="60s")

    def python(self, cluster, places, name, *words):
        self.finish(self.start_python(cluster, places, name, *words), f"{name} {words}, {places}")
        self.released(cluster)

    def test_calls(self):
        for places in ([0], [0, 0], [0, 1, 1]):
            with self.subTest(places=places):
                self.python(self.cluster(2), places, CALLS)

    def test_slices(self):
        """Thousands with TCA_TEST_ROUNDS=20."""
        for _ in range(harness.rounds(1)):
            places = RANDOM.choice(([0, 0], several_each(2, 3)))
            with self.subTest(places=places, seed=SEED):
                self.python(self.cluster(2), places, "tests/integration/python/slices.py", RANDOM.randrange(1 << 30), 8, 20)

    def test_tutorial(self):
        """The program in doc/python.md."""
        with open(os.path.join(os.environ["TCA_TEST_SOURCE"], "doc/python.md"), encoding="utf-8") as text:
            blocks = re.findall(r"^```python\n(.*?)^```$", text.read(), flags=re.M | re.S)
        self.assertGreater(len(blocks), 5)
        program = os.path.join(self.cluster(2).directory, "tutorial.py")
        with open(program, "w", encoding="utf-8") as tutorial:
            # Its prints are for readers: ranks of tests say nothing.
            tutorial.write("def print(text, *more):\n    assert text\n" + "\n".join(blocks))
        for places in ([0, 1], [0, 0, 1]):
            with self.subTest(places=places):
                self.python(self.cluster(2), places, program)

    def test_mpi(self):
        """Sessions of mpi4py's communicators: Debian's, which is one of Open MPI."""
        python = os.environ.get("TCA_TEST_PYTHON", "/usr/bin/python3")
        if subprocess.run([python, "-c", "import mpi4py"], capture_output=True, check=False).returncode or not shutil.which("mpiexec.openmpi"):
            raise unittest.SkipTest("it needs python3-mpi4py and openmpi-bin (tools/setup --all)")
        if not os.environ.get("TCA_TEST_PYTHON_MODULE"):
            raise unittest.SkipTest("the Python module was not built")
        node = self.cluster(1)[0]
        program = os.path.join(os.environ["TCA_TEST_SOURCE"], "tests/integration/python/mpi.py")
        done = harness.run(["mpiexec.openmpi", "--oversubscribe", "--mca", "mpi_yield_when_idle", "1", "-n", "4", python, program], node.process,
                           env={**os.environ, "PYTHONPATH": os.environ["TCA_TEST_PYTHON_MODULE"], "OPENBLAS_NUM_THREADS": "1",
                                "TCA_SOCKET": node.socket, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"})
        self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)

    def test_example(self):
        """The heat equation: the same numbers on any number of ranks."""
        results = set()
        for places in ([0], [0, 1, 0]):
            cluster = self.cluster(2)
            ranks = self.start_python(cluster, places, "client/python/examples/heat.py", 60, 40, 50)
            said = [rank.communicate(timeout=DEADLINE_S)[0] for rank in ranks]
            self.assertEqual([rank.returncode for rank in ranks], [0] * len(places))
            results.add(said[0].replace(f"{len(places)} ranks", ""))
        self.assertEqual(len(results), 1, results)
        self.assertIn("60 x 40, 50 steps", results.pop())


if __name__ == "__main__":
    unittest.main()
