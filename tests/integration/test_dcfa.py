#!/usr/bin/env python3
"""Offload processors on the device in software: programs of tests/integration/dcfa."""

import os
import subprocess
import unittest

import harness


class Dcfa(harness.Case):
    def setUp(self):
        super().setUp()
        self.node = self.cluster(1, options={"dcfa.device": "loop"})[0]

    def processors(self, test):
        result = subprocess.run([harness.program("dcfa"), test], env={**os.environ, "TCA_SOCKET": self.node.socket},
                                stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=harness.DEADLINE_S, check=False)
        self.assertEqual(result.returncode, 0, result.stderr)
        harness.until(lambda: self.node.counts()[0] == 0, "all sessions have ended")
        harness.until(lambda: self.node.tcactl("users")["users"] == [], "everything is released")

    def test_transfers(self):
        self.processors("transfers")

    def test_errors(self):
        self.processors("errors")

    def test_commands(self):
        self.processors("commands")

    def test_death(self):
        self.processors("death")

    @unittest.skipIf(harness.SLOW > 1, "sanitizers need system calls of their own")
    def test_no_system_calls(self):
        self.processors("filtered")


if __name__ == "__main__":
    harness.main()
