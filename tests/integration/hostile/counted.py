"""Growth told by counts: the instructions that the threads of a tcad execute, as valgrind counts them.

Processor time cannot tell how work grows: 65,536 steps leave the caches, and take fresh pages from the kernel, where 8,192 do not, so
that the same instructions take 8 to 30 times as long, depending on the machine. Instructions in user space do not depend on that, nor on
other load. What still varies: the compiler; the variants of memcpy() and memset() that glibc chooses, although valgrind shows every
program the same processors, of which the real one only selects the generation; and how often work is interrupted by its slices' clock.
All of these change the cost of a step by some percent, in small and large requests alike."""

import glob
import os
import re
import shutil
import subprocess
import unittest

import hostile
import harness  # the path to it is set by hostile

THREADS = {"worker": "worker_main", "engine": "engine_main"}  # the function that its stack begins with


class CountedNode(harness.Node):
    """A tcad whose instructions are counted."""

    @property
    def counts_file(self):
        return os.path.join(self.directory, "counts")

    def command(self):
        return ["valgrind", "--tool=callgrind", "--quiet", "--separate-threads=yes", "--callgrind-out-file=" + self.counts_file,
                *super().command()]

    def dump(self):
        subprocess.run(["vgdb", f"--pid={self.process.pid}", "dump"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL, timeout=harness.DEADLINE_S, check=True)

    def take_counts(self):
        """{thread: instructions since the last call}; the threads are "loop", "worker" and "engine"."""
        self.dump()
        counts = dict.fromkeys(("loop", *THREADS), 0)
        for path in glob.glob(self.counts_file + ".*"):
            with open(path, encoding="utf-8", errors="replace") as file:
                text = file.read()
            os.remove(path)
            thread = re.search(r"^thread: (\d+)$", text, re.MULTILINE)
            total = re.search(r"^(?:summary|totals): (\d+)$", text, re.MULTILINE)
            if not thread or not total:
                continue
            name = "loop" if thread[1] == "1" else next((name for name, begin in THREADS.items() if begin in text), None)
            if name:
                counts[name] += int(total[1])
        return counts

    def take_calls(self, function):
        """How often this C function has been called since the last call of this or of take_counts(). (Not a static one that GCC inlines.)"""
        self.dump()
        calls = 0
        for path in glob.glob(self.counts_file + ".*"):
            names, called = {}, None
            with open(path, encoding="utf-8", errors="replace") as file:
                for line in file:  # names are given once for each number
                    if match := re.match(r"(c?)fn=\((\d+)\)(?: (.*))?$", line):
                        names.setdefault(match[2], match[3])
                        called = names[match[2]] if match[1] else None
                    elif called == function and (match := re.match(r"calls=(\d+)", line)):
                        calls += int(match[1])
            os.remove(path)
        return calls


class CountedCluster(harness.Cluster):
    make_node = CountedNode


@unittest.skipIf(harness.SLOW > 1, "valgrind does not run what is built with a sanitizer")
@unittest.skipIf(not shutil.which("vgdb"), "it needs valgrind (tools/setup --all)")
class CountedCase(hostile.HostileCase):
    def counted(self, nodes=1, options=None, **limits):
        """A cluster that lets a user have all this, however small the machine is."""
        limits = {"bytes_per_user": "4G", "bytes": "4G", **limits}
        return self.cluster(nodes, kind=CountedCluster, options={**(options or {}), **{f"limits.{name}": most for name, most in limits.items()}})

    def connect(self, node):
        client = super().connect(node)
        client.socket.settimeout(10 * harness.DEADLINE_S)  # valgrind takes some fifty times as long
        return client

    @staticmethod
    def cost(node, work):
        """{thread: instructions} of this work."""
        node.take_counts()
        work()
        return node.take_counts()

    def constant(self, what, beside_few, beside_many):
        """{thread: instructions} of the same work beside few and beside many others: at most half as much again."""
        few, many = (sum(cost.values()) - cost["engine"] for cost in (beside_few, beside_many))
        print(f"{what}: {few:,} instructions, then {many:,}")
        self.assertLess(2 * many, 3 * few, f"{what}: it grows with others")

    def grows_linearly(self, what, few, many, times):
        """few, many: {thread: instructions} of two requests, the second `times` as large. What is done once for a request makes a step
        of the larger one cheaper; sorting and searching, 13 to 9 for 8,192 steps and 512, are some percent of a step. So a step may cost
        a quarter more in the larger request, but no more: of the loop's thread, and of all that work for requests. Work that is quadratic
        is found, where `times` is 16, when it is a sixtieth of the smaller request's."""
        print(f"{what}: " + "; ".join(f"{thread} {few[thread]:,} instructions, then {many[thread]:,}" for thread in few))
        for threads in (("loop",), ("loop", "worker")):
            self.assertLess(4 * sum(many[thread] for thread in threads), 5 * times * sum(few[thread] for thread in threads),
                            f"{what}: the work of {' and '.join(threads)} grows faster than what was asked for")
