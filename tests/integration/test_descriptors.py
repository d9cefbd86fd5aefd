#!/usr/bin/env python3
"""A tcad that may have few file descriptors: it refuses to start or says how many sessions it can serve, and one user leaves
enough for tcad itself, for tcactl and for other nodes."""

import re

import harness
from harness import Failed, Stream

RAILS = {"rails.enable": "shm tcp"}


class Descriptors(harness.Case):
    def restarted(self, limit, nodes=2, **options):
        """A cluster whose first node has this limit since its start; the node may have ended."""
        cluster = self.cluster(nodes, options={**RAILS, **options})
        cluster[0].kill()
        cluster[0].start(limit)
        return cluster

    def test_too_few(self):
        """Before anything is opened, and when the rails have left too few."""
        for limit, texts in ((20, ("20 file descriptors", "at least 64")), (64, ("64 file descriptors", "41 other nodes", "at least 32"))):
            with self.subTest(limit=limit):
                cluster = self.restarted(limit)
                if limit == 64:
                    cluster[0].process.kill()
                    cluster[0].process.wait()
                    with open(cluster.file, "a", encoding="ascii") as file:
                        file.writelines(f"other{number} id={number} address=127.0.0.2:{number}\n" for number in range(2, 42))
                    cluster[0].start(limit)
                self.assertEqual(cluster[0].process.wait(harness.DEADLINE_S), 1)
                for text in (*texts, "cannot start: ", "LimitNOFILE=", "raise the limit"):
                    self.assertIn(text, cluster[0].log_text())
                cluster[0].process = None

    def test_few(self):
        """One user takes what users may have: the error says what that is, and everything else goes on."""
        limit = 128
        cluster = self.restarted(limit)
        node = cluster[0]
        node.wait_ready()
        sessions, of_user = map(int, re.search(r"enough for (\d+) sessions without regions, (\d+) of them of one user", node.log_text()).groups())
        own = node.metric("tcad_descriptors_reserved")
        self.assertEqual((sessions, of_user), ((limit - own) // 4, (limit - own) // 4 * 3 // 4))
        stream = Stream(*cluster.group([0, 0]))
        opened = 2
        with self.refused("-EDQUOT", str(limit), str(own), "LimitNOFILE="):
            while True:
                cluster.actor().ask("open - 0 1 -2")
                opened += 1
        self.assertEqual(opened, of_user)  # two regions are less than a session
        with self.assertRaises(Failed) as caught:
            while True:
                stream.sender.alloc(4096)
        self.assertEqual(caught.exception.name, "-EDQUOT", caught.exception.text)
        self.assertEqual(stream.run(3), 3)
        self.assertTrue(node.ping(cluster[1]))
        self.assertIn("ready", node.tcactl_raw("status").stdout)
        far = cluster.actor(1)
        far.ask("open - 0 1 -2")
        target = far.alloc(4096)
        stream.sender.ask(f"set {stream.source} 0 4096 7")
        plan = stream.sender.plan(f"put {stream.source} 0 4096 {far.handle(target)} 0 4096", landed=True)
        stream.sender.run(plan, -1)
        far.ask(f"same {target} 0 4096 7")


if __name__ == "__main__":
    harness.main()
