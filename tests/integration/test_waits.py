#!/usr/bin/env python3
"""Waits of the library sleep until something happens: for messages, and for conditions of the program; meanwhile, starts that wait
go on."""

import harness
from ranks import Ranks


class Waits(Ranks):
    RAILS = "shm ofi"

    group = "waits"

    def waits(self, what, **arguments):
        cluster = self.cluster(3)
        for places in ([0, 0, 0], [0, 1, 2]):
            with self.subTest(places=places):
                self.ranks(cluster, places, [harness.program("waits"), what], TCA_SPIN="0", **arguments)

    def test_message(self):
        self.waits("message")

    def test_condition(self):
        self.waits("condition")

    def test_failure(self):
        self.waits("failure", victim=2)

    def test_starts_go_on(self):
        """In every waiting call."""
        cluster = self.cluster()
        for calls in ("all", "qmp"):
            with self.subTest(calls=calls):
                self.ranks(cluster, [0, 0], [harness.program("goes-on"), calls, str(cluster[0].process.pid)])

    def test_late(self):
        """A plan that is committed after the rank that it waits for has ended."""
        self.waits("late", victim=2)


if __name__ == "__main__":
    harness.main()
