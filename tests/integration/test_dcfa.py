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

    def begin(self, *command):
        return subprocess.Popen(command, env={**os.environ, "TCA_SOCKET": self.node.socket}, stdin=subprocess.DEVNULL,
                                stderr=subprocess.PIPE, text=True)

    def finish(self, process):
        _, errors = process.communicate(timeout=harness.DEADLINE_S)
        self.assertEqual(process.returncode, 0, errors)

    def processors(self, test):
        self.finish(self.begin(harness.program("dcfa"), test))
        self.all_released()

    def all_released(self):
        harness.until(lambda: self.node.counts()[0] == 0, "all sessions have ended")
        harness.until(lambda: self.node.tcactl("users")["users"] == [], "everything is released")

    def test_transfers(self):
        self.processors("transfers")

    def test_errors(self):
        self.processors("errors")

    def test_commands(self):
        self.processors("commands")

    def test_direct(self):
        """Without a device whose queues can be handed over, tcad serves them."""
        self.node = self.cluster(1, options={"dcfa.device": "loop", "dcfa.direct": "yes"})[0]
        self.processors("transfers")

    def test_fair(self):
        self.processors("fair")

    def test_death(self):
        self.processors("death")

    def shown(self):
        return self.node.tcactl("offload")["processors"]

    def counter(self, name):
        families = {family["name"]: family["samples"] for family in self.node.tcactl("stats")["families"]}
        return families[name][0]["value"]

    def counters(self):
        return [self.counter("tcad_offload_" + key) for key in ("entries", "completions", "errors", "sent_bytes")]

    def test_shown(self):
        """tcactl shows it while it runs, and after it has ended."""
        before = self.counters()
        process = self.begin(harness.program("dcfa"), "held")
        harness.until(lambda: [row["errors"] for row in self.shown()] == [1], "one error is shown")
        row, = self.shown()
        self.assertEqual([row[key] for key in ("device", "domains", "cqs", "qps", "memories", "entries", "completions", "bytes")],
                         ["loop", 1, 1, 1, 2, 11, 11, 11 * 4096])
        self.assertEqual(self.counter("tcad_offload_processors"), 1)
        process.terminate()
        process.communicate(timeout=harness.DEADLINE_S)
        self.all_released()
        self.assertEqual(self.shown(), [])
        self.assertEqual([now - then for now, then in zip(self.counters(), before)], [11, 11, 1, 11 * 4096])

    def test_hostile(self):
        """Beside correct processors."""
        hostile = self.begin(harness.program("dcfa-hostile"))
        honest = self.begin(harness.program("dcfa"), "transfers")
        self.finish(honest)
        self.finish(hostile)
        self.all_released()
        self.processors("transfers")

    @unittest.skipIf(harness.SLOW > 1, "sanitizers need system calls of their own")
    def test_no_system_calls(self):
        self.processors("filtered")


if __name__ == "__main__":
    harness.main()
