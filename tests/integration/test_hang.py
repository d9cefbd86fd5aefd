#!/usr/bin/env python3
"""TCA_HANG: a wait that lasts longer says what it waits for, once."""

import os
import subprocess

import harness

SAYS = {
    "notification": ("rank 1 did not notify slot 5", "0 were taken before", "(session "),
    "plan": ("start 1 of plan", '"stuck"', "waits for rank 1 to notify slot 6, at step 1 of 1, where 0 of 2 have come", "(session "),
    "message": ("message from rank 1, tag 7: none came",),
    "several": ("message from rank 1, tag 7: none came",),
    "coll": ("the collective operation (barrier) is still running", "within", "; "),
    "thread": ("the collective operation (barrier) is still running",),
    "signal": ("the counter is 0, and did not come to what was awaited (>= 5)",),
    "condition": ("the condition has not become true",),
    "barrier": ("collective call", "so far"),
}


class Hang(harness.Case):
    def run_two(self, what, nodes, **environment):
        """The standard error of rank 0."""
        cluster = self.cluster(2)
        processes = []
        for rank in range(2):
            node = cluster[rank % nodes]
            processes.append(node.popen(
                [os.environ["TCA_TEST_HANG"], what], text=True, stderr=subprocess.PIPE,
                env={**os.environ, "TCA_SOCKET": node.socket, "TCA_GROUP": f"{what}{nodes}{len(environment)}@node0", "TCA_RANK": str(rank),
                     "TCA_SIZE": "2", **environment}))
        said = [process.communicate()[1] for process in processes]
        self.assertEqual([process.returncode for process in processes], [0, 0], said)
        return said[0]

    def test_each_wait(self):
        for what, words in SAYS.items():
            for nodes in (1, 2) if what in ("notification", "plan", "coll") else (1,):
                with self.subTest(what=what, nodes=nodes):
                    said = self.run_two(what, nodes, TCA_HANG="300ms")
                    lines = [line for line in said.splitlines() if line.startswith("libtca: TCA_HANG: ")]
                    self.assertEqual(len(lines), 1, said)
                    self.assertIn(f"rank 0 of 2 of {what}{nodes}1@node0 on node0, pid ", lines[0])
                    if what == "coll":
                        self.assertIn("it waits for rank 1" if nodes == 1 else "tcactl plan explain", lines[0])
                    for word in words:
                        self.assertIn(word, lines[0])

    def test_nothing_without_it(self):
        self.assertEqual(self.run_two("notification", 1), "")


if __name__ == "__main__":
    harness.main()
