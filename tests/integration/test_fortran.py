#!/usr/bin/env python3
"""`use tca`: sections of arrays, exchanges, operations, messages, groups and errors of Fortran programs; a call that fails without
ierror ends the program, and says why."""

import os
import re
import subprocess
import unittest

import harness
from ranks import DEADLINE_S, Ranks


class Fortran(Ranks):
    group = "fortran"

    def setUp(self):
        super().setUp()
        if "TCA_TEST_FORTRAN_CALLS" not in os.environ:
            raise unittest.SkipTest("the Fortran module was not built: it needs gfortran")

    def test_calls(self):
        cluster = self.cluster(2)
        for places in ([0], [0, 0], [0, 1], [0, 1, 1], [1, 0, 0, 1]):
            with self.subTest(places=places):
                self.ranks(cluster, places, [harness.program("fortran-calls")], TCA_TIMEOUT="60s")

    def test_example(self):
        """The heat equation: the same number on any number of ranks."""
        cluster, results = self.cluster(2), set()
        for places in ([0], [0, 1, 0]):
            ranks = self.start(cluster, places, [harness.program("heat-fortran"), "40", "60", "50"])
            said = [rank.communicate(timeout=DEADLINE_S)[0] for rank in ranks]
            self.assertEqual([rank.returncode for rank in ranks], [0] * len(places))
            results.add(said[0].replace(f"{len(places)} ranks", ""))
        self.assertEqual(len(results), 1, results)
        self.assertIn("40 x 60, 50 steps", results.pop())

    def test_himeno(self):
        """The program of the benchmark's authors, plain and with halos: the same residual for every split, and the C program's."""
        cluster, size, sweeps = self.cluster(2), "64", "9"

        def gosa(done):
            self.assertEqual(done.returncode, 0, done.stderr)
            return re.search(r"GOSA +(\S+)", done.stdout)[1]

        plain = gosa(subprocess.run([harness.program("himeno-fortran"), size, sweeps], capture_output=True, text=True,
                                    timeout=DEADLINE_S, check=False))
        in_c = gosa(subprocess.run([harness.program("himeno"), "--size", "XS", "--iterations", sweeps], capture_output=True, text=True,
                                   timeout=DEADLINE_S, check=False))
        self.assertLess(abs(float(plain) / float(in_c) - 1), 1e-4)
        for places, split in ([0, 1], "112"), ([0, 0, 1, 1], "221"), ([0, 1, 0], "131"):
            with self.subTest(split=split):
                ranks = self.start(cluster, places, [harness.program("himeno-fortran"), size, sweeps, *split])
                said = [rank.communicate(timeout=DEADLINE_S) for rank in ranks]
                self.assertEqual([rank.returncode for rank in ranks], [0] * len(places), said)
                self.assertIn(plain, said[0][0])

    def test_document(self):
        """The program in doc/fortran.md."""
        self.ranks(self.cluster(2), [0, 1, 1], [harness.program("fortran-document")], TCA_TIMEOUT="60s")

    def test_without_ierror(self):
        done = subprocess.run([harness.program("heat-fortran")], env={**os.environ, "TCA_SOCKET": "/nonexistent"}, capture_output=True,
                              text=True, timeout=DEADLINE_S, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("tca: no tcad answers at /nonexistent", done.stderr)


if __name__ == "__main__":
    unittest.main()
