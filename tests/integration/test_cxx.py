#!/usr/bin/env python3
"""tca.hpp: views against assignments, a halo, errors, within a node and between nodes."""

import unittest

import harness
from ranks import Ranks


class Cxx(Ranks):
    group = "cxx"

    def test_views(self):
        cluster = self.cluster(2)
        for places in ([0], [0, 0], [0, 1, 1]):
            with self.subTest(places=places):
                self.ranks(cluster, places, [harness.program("cxx-views")], TCA_TIMEOUT="60s")
                self.released(cluster)


if __name__ == "__main__":
    unittest.main()
