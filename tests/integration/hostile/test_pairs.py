#!/usr/bin/env python3
"""Connections between processes of two nodes: clients and daemons that end those of others, invent them, or do not read."""

import socket
import struct

import counted
import hostile
import wire
import harness  # the path to it is set by hostile
from harness import Stream, until
from test_network import frame
from test_peers import FalseNode

OPTIONS = {"control.security": "plain", "rails.enable": "shm ofi tcp", "rails.tcp_security": "plain", "control.request_timeout": "10s",
           "limits.pairs_per_session": 8}
CLIENT_SEAT, EVENT_PAIR, EVENT_PAIR_GONE = 1, 11, 12
EVENT_LANDING, EVENT_WITHDRAWN = 13, 7
LIMIT = 8


class Pairs(hostile.HostileCase):
    def nodes(self, count):
        return self.cluster(count, options=OPTIONS)

    def false_node(self, cluster, number, answer=None, port=1, real=0):
        """With an address of the rail tcp; connections to it would be encrypted, so that the connecting side sends first."""
        plane = next(rail["plane"] for rail in cluster[0].tcactl("status")["rails"] if rail["driver"] == "tcp")
        address = struct.pack("<IHBBQQ32s4s12xHBx140x", 0x41504354, 2, 1, 1, number, 0, bytes([number] * 32),
                              socket.inet_aton(harness.ADDRESS), port, 4)  # drivers/tcp/tcp_wire.h
        rail = wire.blob(6, wire.blob(1, "tcp") + wire.blob(2, address) + wire.blob(3, "tcp:far") +
                         wire.blob(4, plane))
        node = FalseNode(cluster, number, answer, rail)
        node.tcp_plane = plane
        self.addCleanup(node.close)
        until(lambda: cluster[real].ping(cluster[number]), "the false node is up")
        return node

    # ---- a daemon that asks

    @staticmethod
    def bind_request(node, session, *handles):
        rail = wire.blob(13, wire.blob(1, "tcp") + wire.blob(2, node.tcp_plane))
        puts = b"".join(wire.blob(12, wire.blob(1, handle) + wire.blob(3, wire.contiguous(8))) for handle in handles)
        return wire.blob(wire.PEER_BIND, wire.number(2, session) + wire.blob(3, "") + rail + puts + wire.number(14, 1))

    def bind(self, node, handle, session):
        """Requests a landing in the session's process: (status, text), or the pair and its secret."""
        kind, body = node.ask(self.bind_request(node, session, handle), 7)
        assert kind == wire.PEER_BOUND, kind
        if 7 in body:
            failure = wire.fields(body[7][0])
            return wire.STATUS[failure[1][0]], failure[2][0].decode()
        bound = wire.fields(body[6][0])
        return bound[6][0], bound[7][0]

    def test_too_many(self):
        """The number of a process's connections is limited; those that another daemon has made end with that daemon."""
        cluster = self.nodes(2)
        cluster[1].kill()
        client = self.open(cluster[0])
        handle = client.alloc(4096)[2]
        node = self.false_node(cluster, 1)
        pairs = {self.bind(node, handle, session) for session in range(1, LIMIT + 1)}
        self.assertEqual(len(pairs), LIMIT)
        status, text = self.bind(node, handle, LIMIT + 1)
        self.assertEqual(status, "-EDQUOT")
        self.assertIn(f"has {LIMIT} connections", text)
        self.assertIn("limits.pairs_per_session", text)
        session = cluster[0].tcactl("sessions")["sessions"][0]
        self.assertEqual(session["pairs"], LIMIT)
        self.assertIn(self.bind(node, handle, 1), pairs)
        node.peer.shutdown(socket.SHUT_RDWR)
        until(lambda: cluster[0].ping(cluster[1]), "it is back")
        again = [self.bind(node, handle, session) for session in range(1, LIMIT + 1)]
        self.assertEqual((len(set(again)), pairs & set(again)), (LIMIT, set()))
        self.assert_well(cluster[0])

    def test_a_pair_of_another_node(self):
        cluster = self.nodes(3)
        for number in (1, 2):
            cluster[number].kill()
        client = self.open(cluster[0])
        handle = client.alloc(4096)[2]
        owner, other = (self.false_node(cluster, number) for number in (1, 2))
        pair = self.bind(owner, handle, 5)
        own = self.bind(other, handle, 5)
        self.assertNotEqual(own[0], pair[0])
        for number in (pair[0], 0, (1 << 64) - 1):
            other.send(wire.blob(wire.PEER_PAIR_GONE, wire.fixed(1, number) + wire.number(2, 24)))
        for node, number in ((other, pair[0]), (owner, pair[0]), (owner, 0)):  # offers are for other rails
            node.send(wire.blob(wire.PEER_PAIR_OFFER, wire.fixed(1, number) + wire.blob(2, bytes(80))))
        self.assertEqual(self.bind(other, handle, 5), own)  # it has heard
        self.assertEqual(self.bind(owner, handle, 5), pair)
        owner.send(wire.blob(wire.PEER_PAIR_GONE, wire.fixed(1, pair[0])))  # without a reason
        self.assertNotEqual(self.bind(owner, handle, 5), pair)
        self.assert_well(cluster[0])

    def test_a_request_that_fails(self):
        """It does not end the pair that an earlier one is being bound to."""
        cluster = self.nodes(2)
        cluster[1].kill()
        node = self.false_node(cluster, 1)
        handle = self.open(cluster[0]).alloc(4096)[2]
        for session in range(1, LIMIT):
            good = self.bind_request(node, session, handle)
            bad = self.bind_request(node, session, handle, bytes(len(handle)))
            node.peer.sendall(frame(good, 7) + frame(bad, 8))
            with node.changed:
                self.assertTrue(node.changed.wait_for(lambda: {7, 8} <= node.answers.keys(), 60))
            first, second = (node.answers.pop(tag)[1] for tag in (7, 8))
            self.assertIn(7, second)
            self.assertNotIn(7, first, first.get(7))
            pair = wire.fields(first[6][0])[6][0]
            self.assertEqual(self.bind(node, handle, session)[0], pair)
        # nobody needs the pair of a request that has failed alone
        node.ask(self.bind_request(node, LIMIT, handle, bytes(len(handle))), 7)
        self.assertEqual(cluster[0].tcactl("sessions")["sessions"][0]["pairs"], LIMIT - 1)
        self.assert_well(cluster[0])

    # ---- a daemon that replies

    def committed(self, answers, port=1):
        """A cluster of a node and a false node that binds puts as given, and how a client commits such a plan."""
        cluster = self.nodes(2)
        handle = self.open(cluster[1]).alloc(4096)[2]
        self.assertTrue(cluster[0].ping(cluster[1]))

        def answer(node, number, count):
            return node.bind(count, answers.pop(0))
        self.false_node(cluster, 1, answer, port)

        def commit(client):
            put = wire.put(client.alloc(4096)[0], handle, wire.contiguous(8), wire.contiguous(8))
            return client.ask(wire.commit([put], rail="tcp", seat=CLIENT_SEAT))
        return cluster, commit

    @staticmethod
    def bound(pair, secret=bytes(32), owner=5):
        return wire.number(3, owner) + wire.fixed(6, pair) + wire.blob(7, secret) + wire.number(9, 1) + wire.number(10, owner)

    def test_pairs_that_cannot_be(self):
        """Bindings without a number, without a secret, and with another process's number."""
        answers = [self.bound(7), self.bound(0), self.bound(8, b""), self.bound(8, bytes(31)), b"", self.bound(7), self.bound(7)]
        door = socket.create_server((harness.ADDRESS, 0))
        self.addCleanup(door.close)
        cluster, commit = self.committed(answers, door.getsockname()[1])
        first, second = self.open(cluster[0]), self.open(cluster[0])
        commit(first)
        for _ in range(5):
            with self.fails("-EPROTO", "step 0", "an invalid pair"):
                commit(second)
        self.assertEqual(len(answers), 1)
        commit(first)
        self.assert_well(cluster[0])

    def crossing(self, real, told=True):
        """A node is asked for a pair while it waits for the same from the other one, which dials nothing. Returns the other's door, the
        pair that the client puts over, the one that the node has answered with, and how to commit once more. told: it has answered
        before the other one does."""
        cluster = self.nodes(2)
        handle = self.open(cluster[1 - real]).alloc(4096)[2]
        self.assertTrue(cluster[real].ping(cluster[1 - real]))
        client = self.open(cluster[real])
        source, _, own = client.alloc(4096)[:3]
        door = socket.create_server((harness.ADDRESS, 0))
        self.addCleanup(door.close)

        def answer(node, number, count):
            if number > 0 or told:
                return node.bind(count, self.bound(77))
            node.peer.sendall(frame(self.bind_request(node, 5, own), 7) + frame(node.bind(count, self.bound(77)), node.tag))
            return None
        node = self.false_node(cluster, 1 - real, answer, door.getsockname()[1], real)

        def commit():
            body = client.ask(wire.commit([wire.put(source, handle, wire.contiguous(8), wire.contiguous(8))], rail="tcp", seat=CLIENT_SEAT))[1]
            return wire.fields(wire.fields(body[2][0])[4][0])[19][0]
        if told:
            node.send(self.bind_request(node, 5, own), 7)
            with node.changed:
                self.assertTrue(node.changed.wait_for(lambda: 7 in node.answers, 60))
        pair = commit()
        with node.changed:
            self.assertTrue(node.changed.wait_for(lambda: 7 in node.answers, 60))
        answered = wire.fields(node.answers.pop(7)[1][6][0])[6][0]
        self.addCleanup(self.assert_well, cluster[real])
        return door, pair, answered, commit

    def test_both_ask_the_lower(self):
        """Its own choice counts."""
        door, pair, answered, commit = self.crossing(0)
        self.assertEqual(pair, answered)
        self.assertEqual(commit(), pair)
        door.settimeout(0.2)
        with self.assertRaises(TimeoutError):
            door.accept()

    def test_both_ask_the_higher(self):
        """It dials what the other one has chosen, and its process notices nothing."""
        door, pair, answered, commit = self.crossing(1)
        self.assertEqual(answered, pair)
        self.assertNotEqual(pair, 77)  # the name here stays
        self.assert_dialled(door, 77)
        self.assertEqual(commit(), pair)

    def test_both_ask_and_nobody_was_told(self):
        """The choice that was told first counts: the request for the other one can still fail."""
        door, pair, answered, commit = self.crossing(0, told=False)
        self.assertEqual(answered, 77)
        self.assert_dialled(door, 77)
        self.assertEqual(commit(), pair)

    def assert_dialled(self, door, pair):
        connection, _ = door.accept()
        self.addCleanup(connection.close)
        magic, _, _, number = struct.unpack("<IHHQ", connection.recv(48, socket.MSG_WAITALL)[:16])
        self.assertEqual((magic, number), (0x50504354, pair))

    def test_nobody_at_the_door(self):
        """The process is notified that its connection cannot be made."""
        cluster, commit = self.committed([self.bound(7), self.bound(8)])
        for pair in (7, 8):
            client = self.open(cluster[0])
            commit(client)
            event = next(event for event in iter(lambda client=client: self.event(client), None) if event[1][0] == EVENT_PAIR_GONE)
            self.assertEqual((wire.fields(event[11][0])[1][0], wire.STATUS[event[5][0]]), (pair, "-ENETDOWN"))
        self.assert_well(cluster[0])

    @staticmethod
    def event(client):
        if client.events:
            return client.events.pop(0)
        _, kind, body, _ = client.receive()
        assert kind == wire.EVENT, kind
        return body

    # ---- clients

    def test_lost_by_others(self):
        """Only the two processes can end their connection."""
        cluster = self.nodes(2)
        sender, receiver, other, far = self.open(cluster[0]), self.open(cluster[1]), self.open(cluster[0]), self.open(cluster[1])
        handle = receiver.alloc(4096)[2]
        put = wire.put(sender.alloc(4096)[0], handle, wire.contiguous(8), wire.contiguous(8))
        self.assertTrue(cluster[0].ping(cluster[1]))

        def pair():
            body = sender.ask(wire.commit([put], rail="tcp", seat=CLIENT_SEAT))[1]
            return wire.fields(wire.fields(body[2][0])[4][0])[19][0]

        def lost(client, number):
            client.send(wire.blob(wire.PAIR_LOST, wire.fixed(1, number)))
            client.alloc(4096)  # it was heard
        number = pair()
        for client, which in ((other, number), (far, number), (sender, 0), (sender, number + 1)):
            lost(client, which)
        for client, which in ((other, number), (far, number), (sender, number), (receiver, number), (sender, 0)):
            for offer in (b"", bytes(80), bytes(129)):  # nobody has asked for one
                client.send(wire.blob(wire.PAIR_OFFER, wire.fixed(1, which) + wire.blob(2, offer)))
            client.alloc(4096)
        self.assertEqual(pair(), number)
        lost(sender, number)
        lost(sender, number)
        again = pair()
        self.assertNotEqual(again, number)
        lost(receiver, again)
        until(lambda: pair() != again, "the sender's node has heard it")
        for node in cluster.nodes:
            self.assert_well(node)

    def test_devices_that_there_are_not(self):
        """Processes that say they can use the devices of all rails have connections as others do, over those that exist."""
        cluster = self.nodes(2)
        ends = [self.open(node) for node in cluster.nodes]
        for rails in (0xffffffff, 0, 0xffffffff):
            for client in ends:
                client.send(wire.blob(wire.PAIR_RAILS, wire.number(1, rails)))
        put = wire.put(ends[0].alloc(4096)[0], ends[1].alloc(4096)[2], wire.contiguous(8), wire.contiguous(8))
        committed = wire.fields(ends[0].ask(wire.commit([put], rail="tcp", seat=CLIENT_SEAT))[1][2][0])
        self.assertEqual(committed[2][0], CLIENT_SEAT)
        for node in cluster.nodes:
            self.assert_well(node)

    def test_a_receiver_that_does_not_listen(self):
        """The process is not notified of ever more landings; another one does not notice."""
        cluster = self.nodes(2)
        bystanders = [Stream(*cluster.group([0, 1], name="bystanders"), rail="tcp", seat="client", ack_seat="client")]
        with self.undisturbed(cluster, bystanders, count_fds=False):
            with self.connect(cluster[0]).open() as sender, self.connect(cluster[1]).open() as receiver:
                handle = receiver.alloc(4096)[2]
                put = wire.put(sender.alloc(4096)[0], handle, wire.contiguous(8), wire.contiguous(8))
                with self.fails("-EBUSY", "has not read"):
                    for _ in range(1000):
                        sender.ask(wire.commit([put], rail="tcp", seat=CLIENT_SEAT))


class ManyPairs(counted.CountedCase):
    """Pairs and landings are found without a look at all of them, and their process is told of many landings at once."""

    false_node, bind_request = Pairs.false_node, staticmethod(Pairs.bind_request)

    def test_landings_beside_others(self):
        most = 256  # puts of a request
        cluster = self.counted(2, OPTIONS, pairs_per_session=1024)
        cluster[1].kill()
        client = self.open(cluster[0])
        handle = client.alloc(4096)[2]
        node = self.false_node(cluster, 1)

        def bind(session, puts):
            kind, body = node.ask(self.bind_request(node, session, *[handle] * puts), 7)
            self.assertEqual(kind, wire.PEER_BOUND)
            self.assertNotIn(7, body, body.get(7))
            return [wire.fields(bound)[1][0] for bound in body[6]]

        bind(1, most)  # whatever is made once
        few = self.cost(cluster[0], lambda: bind(1, most))
        client.ask(wire.region_alloc(4096))
        self.assertEqual([len(event[12]) for event in client.events if event[1] == [EVENT_LANDING]], [most, most])
        for session in range(2, 1024):
            bind(session, 1)
            if session % 100 == 0:
                client.ask(wire.region_alloc(4096))  # it reads
        bindings = bind(1, most)
        self.constant("256 landings beside 1 pair and 1023", few, self.cost(cluster[0], lambda: bind(1, most)))
        node.send(wire.blob(wire.PEER_UNBIND, b"".join(wire.number(1, binding) for binding in bindings)))
        client.events.clear()

        def withdrawn():
            client.ask(wire.region_alloc(4096))
            return [len(wire.varints(event[13][0])) for event in client.events if event[1] == [EVENT_WITHDRAWN]]

        until(lambda: sum(withdrawn()) == most, "the process is told of their end")


if __name__ == "__main__":
    harness.main()
