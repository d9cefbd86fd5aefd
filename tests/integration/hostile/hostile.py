"""Shared by the tests of hostile clients and peers: bystanders, which must not notice the attacks."""

import contextlib
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import wire  # noqa: E402  pylint: disable=wrong-import-position
from harness import Case, Stream, until  # noqa: E402  pylint: disable=wrong-import-position


class HostileCase(Case):
    """A Case with bystanders: pairs of clients whose checked transfers continue while others misbehave."""

    def bystanders(self, cluster, places=(0, 0), seats=("client", "daemon"), rail="any"):
        streams = []
        for number, seat in enumerate(seats):
            sender, receiver = cluster.group(list(places), name=f"bystanders{number}")
            streams.append(Stream(sender, receiver, seat=seat, rail=rail))
        return streams

    @contextlib.contextmanager
    def undisturbed(self, cluster, streams=None, node=0, count_fds=True):
        """Transfers begin before the body and end after it, all correct, some of them late; afterwards the daemon is healthy and
        holds nothing."""
        daemon = cluster[node]
        if streams is None:
            streams = self.bystanders(cluster)
        for stream in streams:
            stream.begin(bystander=True)
        for other in cluster.nodes:  # remaining connections must not count as leaks
            self.assertTrue(daemon.ping(other) and other.ping(daemon))
        self.assert_moving(daemon, streams)
        pid, fds, counts = daemon.process.pid, daemon.fds(), daemon.counts()
        yield streams
        self.assert_well(daemon, pid)
        self.assert_moving(daemon, streams)
        until(lambda: daemon.counts() == counts, f"{counts} sessions, regions and plans again")
        until(lambda: not count_fds or daemon.fds() <= fds, f"{fds} descriptors again")
        for stream in streams:
            self.assertGreater(stream.finish(), 0)

    def assert_well(self, daemon, pid=None):
        self.assertIsNone(daemon.process.poll(), "the daemon has ended")
        if pid:
            self.assertEqual(daemon.process.pid, pid)
        self.assertEqual(daemon.tcactl("status")["daemon"]["pid"], daemon.process.pid)

    def assert_moving(self, daemon, streams):
        """Starts the plan of every stream again and again."""
        pids = {stream.sender.pid for stream in streams}

        def starts():
            return {plan["id"]: plan["starts"] for plan in daemon.plans() if plan["name"] == "stream" and plan["pid"] in pids}
        before = starts()
        self.assertGreaterEqual(len(before), sum(stream.sender.node is daemon for stream in streams))
        until(lambda: all(now > before[plan] for plan, now in starts().items() if plan in before), "transfers go on")

    @contextlib.contextmanager
    def fails(self, name, *texts):
        """The body must fail with this error, and with a message that contains all texts."""
        with self.assertRaises(wire.Failure) as caught:
            yield
        self.assertEqual(caught.exception.name, name, caught.exception.text)
        for text in texts:
            self.assertIn(text, caught.exception.text)

    def connect(self, node):
        client = wire.Client(node.socket)
        self.addCleanup(client.close)
        return client

    def open(self, node, **arguments):
        client = self.connect(node).open(**arguments)
        self.addCleanup(lambda: [os.close(fd) for fd in client.fds])
        return client
