#!/usr/bin/env python3
"""A rail is lost while the node is up, and with it puts that were complete for their sender. Plans that could continue over
another rail as if these had arrived fail instead; others continue."""

import re
import socket
import tempfile
import time

import harness
from boards import DEAR_BOARDS, Boards
from connections import connections_of, kept, rail_port
from harness import until

PUTS = 3


class Swallowed:
    """The ofi rail sends to a stopped daemon: the data will never be read, and then the connections end."""

    def __init__(self, node, nodes):
        node.pause()
        ports = {rail_port(each) for each in nodes if each is not node}
        self.bytes, self.sockets = 0, [kept(each) for each in connections_of(node, ports | {node.ofi_port})]
        assert self.sockets

    def swallow(self):
        for each in self.sockets:
            try:
                while data := each.recv(1 << 16, socket.MSG_DONTWAIT):
                    self.bytes += len(data)
            except BlockingIOError:
                pass

    def swallow_all(self, least):
        """Waits until this much has arrived, and no more arrives."""
        before = None
        while self.bytes < least or before != self.bytes:
            before = self.bytes
            time.sleep(0.2)
            self.swallow()

    def end(self):
        for each in self.sockets:
            each.shutdown(socket.SHUT_RDWR)
            each.close()


class Lost(Boards):
    def setUp(self):
        super().setUp()
        costs = tempfile.NamedTemporaryFile("w", suffix=".cost")  # daemons may read it when they have been ready for a while
        self.addCleanup(costs.close)
        costs.write(DEAR_BOARDS)
        costs.flush()
        self.nodes = self.ring(2, rails__calibration_file=costs.name)
        self.sender, self.receiver = self.nodes.group([0, 1])

    def lose(self, start):
        """Starts that are complete here and do not arrive; then their rail is given up. Earlier starts have certainly arrived."""
        self.start(self.sender, self.sender.plan("notify 1 9", rail="ofi", seat="daemon", channel=3, landed=True))
        self.nodes[1].ofi_port = rail_port(self.nodes[1])
        swallowed = Swallowed(self.nodes[1], self.nodes.nodes)
        start()
        swallowed.swallow_all(PUTS * 4096)
        swallowed.end()
        until(lambda: re.search("rail ofi:[a-z]+:lo to node 1 was lost:", self.nodes[0].log_text()), "the rail is given up")
        self.nodes[1].resume()

    def test_complete_puts(self):
        sender, receiver = self.sender, self.receiver
        plan, target = self.plan(sender, receiver, 1)
        same_channel, _ = self.plan(sender, receiver, 1, slot=1)
        other, other_target = self.plan(sender, receiver, 1, slot=2, channel=1)
        self.assertEqual([self.start(sender, each)["rail"] for each in (plan, same_channel, other)], ["ofi"] * 3)
        for slot, each in enumerate((target, _, other_target)):
            self.arrived(receiver, 0, each, slot=slot)

        def start():
            for _ in range(PUTS):
                self.start(sender, plan)

        self.lose(start)
        lost = f"to node 1 was lost with {PUTS} puts of channel 0"
        for command in (f"wait {plan} -1", f"test {plan}", f"start {plan}", f"start {same_channel}"):
            with self.subTest(command=command), self.refused("-ENETDOWN", lost):
                sender.ask(command)
        self.assertEqual(self.start(sender, other)["rail"], "peach2")
        self.arrived(receiver, 0, other_target, slot=2)
        self.assertEqual([receiver.ask(f"count 0 {slot}") for slot in (0, 1)], [["0"], ["0"]])
        sender.ask(f"freeplan {plan}")
        again, target = self.plan(sender, receiver, 1)
        self.start(sender, again)
        self.arrived(receiver, 0, target)

    def test_nothing_lost(self):
        """Data that has arrived is not lost with the rail: the plan moves."""
        plan, target = self.plan(self.sender, self.receiver, 1)
        self.start(self.sender, plan)
        self.arrived(self.receiver, 0, target)
        other, _ = self.plan(self.sender, self.receiver, 1, slot=1, channel=1)
        self.lose(lambda: [self.start(self.sender, other) for _ in range(PUTS)])
        self.assertEqual(self.start(self.sender, plan)["rail"], "peach2")
        self.arrived(self.receiver, 0, target)


if __name__ == "__main__":
    harness.main()
