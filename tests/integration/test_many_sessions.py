#!/usr/bin/env python3
"""Thousands of sessions: nothing is left of them, neither descriptors nor memory."""

import os
import re

import harness

TOTAL = int(os.environ.get("TCA_TEST_SESSIONS", "10000" if harness.SLOW == 1 else "1500"))
AT_ONCE = min(1000, TOTAL // 3)
# The address sanitizer keeps freed memory for a while: that is no growth of the daemon's.
os.environ["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "") + ":quarantine_size_mb=1:thread_local_quarantine_size_kb=16"


class Sessions(harness.Case):
    def settled(self, node, fds):
        harness.until(lambda: node.counts() == (0, 0, 0), "all sessions are gone")
        harness.until(lambda: node.fds() <= fds, f"no more than {fds} descriptors are open")

    @staticmethod
    def memory_kib(node):
        """What it has allocated, and the segments that it maps. How much malloc() keeps besides depends on when it was trimmed. With the
        address sanitizer, which knows no trimming: all of it."""
        heap = node.metric("tcad_heap_bytes")
        if heap == 0:
            return node.memory_kib()
        return heap // 1024 + Sessions.shared_kib(node.process)

    @staticmethod
    def shared_kib(process):
        with open(f"/proc/{process.pid}/status", encoding="ascii") as status:
            return int(re.search(r"^RssShmem:\s+(\d+) kB", status.read(), re.MULTILINE).group(1))

    def test_opened_and_closed(self):
        cluster = self.cluster(1)
        node, actor = cluster[0], cluster.actor()
        node.counts()
        fds = node.fds()
        # First more at a time than later, when the daemon closes sessions more slowly than the client opens them.
        actor.ask(f"hold {AT_ONCE}", 4 * harness.DEADLINE_S)
        self.assertEqual(actor.ask(""), ["closed"])
        self.settled(node, fds)
        actor.ask(f"many {TOTAL // 20} 10")
        self.settled(node, fds)
        memory = self.memory_kib(node)
        self.assertEqual(actor.ask(f"many {TOTAL} 10", 4 * harness.DEADLINE_S), [str(TOTAL)])
        self.settled(node, fds)
        grown = self.memory_kib(node) - memory
        print(f"{TOTAL} sessions: memory grew by {grown} KiB")
        self.assertLess(grown, 3072 * harness.SLOW + TOTAL // 10, "KiB: it keeps something of each session")
        opened = {family["name"]: family for family in node.tcactl("stats")["families"]}["tcad_sessions_opened"]
        self.assertGreaterEqual(opened["samples"][0]["value"], TOTAL)

    def test_open_at_once(self):
        cluster = self.cluster(1)
        node, holder = cluster[0], cluster.actor()
        node.counts()
        fds = node.fds()
        memory = []
        for _ in range(3):
            self.assertEqual(holder.ask(f"hold {AT_ONCE}", 4 * harness.DEADLINE_S), [str(AT_ONCE)])
            self.assertEqual(node.counts()[0], AT_ONCE)
            self.assertLess(self.shared_kib(holder.process) / AT_ONCE, 400, "KiB of a session's segments: a group of one uses little")
            worker = cluster.actor()  # there is room for a busy one
            worker.ask("open - 0 0 -2")
            plan, source, target = worker.put_plan(worker, 65536, seat="daemon")
            for turn in range(50):
                worker.ask(f"fill {source} 0 65536 {turn}")
                worker.run(plan)
                worker.ask(f"check {target} 0 65536 {turn}")
            worker.end()
            holder.ask("")
            self.settled(node, fds)
            memory.append(self.memory_kib(node))
        print(f"{AT_ONCE} sessions at once, three times: {memory} KiB afterwards")
        self.assertLess(memory[2] - memory[0], 1024 * harness.SLOW + AT_ONCE, "KiB")

    def test_killed_by_the_hundred(self):
        """A client with many sessions is killed."""
        cluster = self.cluster(1)
        node = cluster[0]
        node.counts()
        fds = node.fds()
        for _ in range(3):
            holder = cluster.actor()
            self.assertEqual(holder.ask(f"hold {AT_ONCE // 2}", 4 * harness.DEADLINE_S), [str(AT_ONCE // 2)])
            holder.kill()
            self.settled(node, fds)


if __name__ == "__main__":
    harness.main()
