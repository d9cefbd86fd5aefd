#!/usr/bin/env python3
"""A daemon of the cluster with requests and replies that no correct daemon sends, about the bindings of puts."""

import hmac
import socket
import struct
import threading

import hostile
import wire
import harness  # the path to it is set by hostile
from connections import rail_port
from test_network import control_port, frame, peer_hello

PUTS, MOST = 1000, 256  # of a plan, and of one request


class FalseNode:
    """Takes the place of a node that was up: greets, and passes other messages to answer(number, tag, body)."""

    def __init__(self, cluster, number, answer, rails=b""):
        self.rails = rails  # besides ofi
        self.answer, self.bound, self.unbound, self.asked, self.answers, self.hello = answer, [], [], [], {}, {}
        self.changed = threading.Condition()
        port = control_port(cluster, number)
        self.plane = next(rail["plane"] for rail in cluster[0].tcactl("status")["rails"] if rail["driver"] == "ofi")
        if cluster[number].process:
            cluster[number].kill()
        self.listener = socket.create_server((harness.ADDRESS, port))
        self.number = number
        self.peer = self.tag = None
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        try:
            while True:
                self.peer = self.listener.accept()[0]
                self.serve()
        except OSError:
            return

    def receive(self):
        head = self.peer.recv(16, socket.MSG_WAITALL)
        length, tag = int.from_bytes(head[8:12], "little"), int.from_bytes(head[12:16], "little")
        payload = self.peer.recv(length, socket.MSG_WAITALL) if length else b""
        if len(head) < 16 or len(payload) < length:
            raise ConnectionResetError
        (kind, values), = wire.fields(payload).items()
        return tag, kind, wire.fields(values[0])

    def send(self, payload, tag=0):
        self.peer.sendall(frame(payload, tag))

    def serve(self):
        rails = wire.blob(6, wire.blob(1, "ofi") + wire.blob(2, b"nowhere") + wire.blob(3, "ofi:far") + wire.blob(4, self.plane))
        self.send(peer_hello(node=self.number, name=f"node{self.number}", rails=rails + self.rails))
        try:
            while True:
                tag, kind, body = self.receive()
                if kind == wire.PEER_HELLO:
                    self.hello = body
                    self.send(wire.blob(wire.PEER_WELCOME, b""))
                elif kind == wire.PEER_PING:
                    self.send(wire.blob(wire.PEER_PONG, wire.number(1, body.get(1, [0])[0])), tag)
                else:
                    self.take(tag, kind, body)
        except ConnectionResetError:
            self.peer.close()

    def take(self, tag, kind, body):
        with self.changed:
            if kind == wire.PEER_BIND:
                self.asked.append(len(body[12]))
                self.tag = tag
                answer = self.answer(self, len(self.asked) - 1, len(body[12]))
                if answer:  # else it was sent
                    self.send(answer, tag)
            elif kind == wire.PEER_UNBIND:
                at, data = 0, body[1][0]
                while at < len(data):  # packed
                    value = shift = 0
                    while True:
                        value, shift, at = value | (data[at] & 0x7F) << shift, shift + 7, at + 1
                        if data[at - 1] < 0x80:
                            break
                    self.unbound.append(value)
            else:
                self.answers[tag] = kind, body
            self.changed.notify_all()

    def ask(self, payload, tag):
        self.send(payload, tag)
        with self.changed:
            assert self.changed.wait_for(lambda: tag in self.answers, 60)
            return self.answers.pop(tag)

    def bind(self, count, landings=b""):
        """This many bindings, each with these landings."""
        first = len(self.bound) + 1
        self.bound += range(first, first + count)
        return wire.blob(wire.PEER_BOUND, b"".join(wire.blob(6, wire.number(1, number) + landings) for number in
                                                   range(first, first + count)))

    def close(self):
        self.listener.close()
        if self.peer:
            self.peer.close()


def failure(which, status=11, text="none of that"):
    return wire.blob(wire.PEER_BOUND, wire.blob(7, wire.number(1, status) + wire.blob(2, text)) + wire.number(8, which))


class Peers(hostile.HostileCase):
    RAILS = "shm ofi"

    def setting(self, answer):
        """A cluster of a node and a false node, a client of the node, and its commit of many puts to the false node."""
        cluster = self.cluster(2, options={"control.security": "plain", "control.request_timeout": "10s"})
        there = self.open(cluster[1])
        handle = there.alloc(1 << 20)[2]
        self.assertTrue(cluster[0].ping(cluster[1]))
        node = FalseNode(cluster, 1, answer)
        self.addCleanup(node.close)
        harness.until(lambda: cluster[0].ping(cluster[1]), "the false node is up")
        client = self.open(cluster[0])
        region = client.alloc(1 << 20)[0]
        put = wire.put(region, handle, wire.contiguous(8), b"")
        return cluster, node, client, [put] * PUTS

    def refused(self, answer):
        """The commit fails, and what had been bound is released."""
        cluster, node, client, puts = self.setting(answer)
        with self.fails("-EPROTO"):
            client.ask(wire.commit(puts))
        with node.changed:
            self.assertTrue(node.changed.wait_for(lambda: set(node.unbound) >= set(node.bound[:MOST - 1]), 60))
        self.assertEqual(len(set(node.unbound)), len(node.unbound))
        self.assert_well(cluster[0])

    def test_few_questions(self):
        """A plan requests hundreds of bindings of a node in one message."""
        _, node, client, puts = self.setting(lambda node, number, count: node.bind(count))
        with self.fails("-EPROTO", "step 0", "none of the rails of this node"):  # there are no landings
            client.ask(wire.commit(puts))
        all_of_it = [MOST] * (PUTS // MOST) + [PUTS % MOST]  # in slices: the first answer may come before the last question
        self.assertIn(node.asked, [all_of_it[:count] for count in range(1, len(all_of_it) + 1)])
        node.asked.clear()
        long = wire.program([wire.op(wire.BLOCK, count=1, offset=2 * i) for i in range(12000)], size=12000, blocks=12000, upper=23999,
                            ub=23999)
        region, handle = client.alloc(1 << 20)[0], wire.fields(wire.fields(puts[0])[1][0])[4][0]
        with self.fails("-EPROTO", "step 0", "none of the rails of this node"):
            client.ask(wire.commit([wire.put(region, handle, long, b"")] * 8))
        # At most 1 MiB of layouts, each of 384 kB. The first answer may come before the last question.
        self.assertIn(node.asked, [[2] * count for count in range(1, 5)])

    def test_landings_on_rails_that_nobody_asked_for(self):
        for rail in (1, 16, 17, (1 << 32) - 1):
            with self.subTest(rail=rail):
                landing = wire.blob(2, wire.blob(2, b"here") + wire.number(3, rail))
                _, _, client, puts = self.setting(lambda node, number, count, landing=landing: node.bind(count, landing))
                with self.fails("-EPROTO", "step 0", "none of the rails of this node"):
                    client.ask(wire.commit(puts))

    def test_the_put_is_named(self):
        """The error names the step and the chain that cannot be bound; the other bindings of this request and of others are
        released."""
        landing = wire.blob(2, wire.blob(2, b"here") + wire.number(3, 0))
        _, node, client, puts = self.setting(lambda node, number, count: failure(7) if number == 2 else node.bind(count, landing))
        for steps, name in (([puts], f"step {2 * MOST + 7}: none of that"),
                            ([puts[:1], [wire.wait(0, 0)] + puts], f"chain 1, step {2 * MOST + 7}: none of that")):
            with self.fails("-EINVAL", name):
                client.ask(wire.commit(*steps))
            with node.changed:
                self.assertTrue(node.changed.wait_for(lambda: len(node.unbound) == len(node.bound), 60))
            self.assertEqual(sorted(node.unbound), sorted(node.bound))
            self.assertGreater(len(node.bound), 2 * MOST - 1)
            node.asked.clear()

    def test_another_number(self):
        for more in (-1, 1):
            with self.subTest(more=more):
                self.refused(lambda node, number, count, more=more: node.bind(count + more))

    def test_failures_that_are_none(self):
        for payload in (failure(MOST), failure((1 << 32) - 1), failure(0, status=0), failure(0, status=4711),
                        wire.blob(wire.PEER_BOUND, b""), wire.blob(wire.DONE, b"")):
            with self.subTest(payload=payload):
                self.refused(lambda node, number, count, payload=payload: payload)

    def test_questions(self):
        """Requests without puts, with too many, and with one among them that cannot be bound: nothing is left of them."""
        cluster, node, client, _ = self.setting(lambda node, number, count: node.bind(count))
        handle = client.alloc(1 << 20)[2]

        def ask(puts, tag):
            body = wire.number(2, 99) + wire.blob(3, "") + wire.blob(13, wire.blob(1, "ofi") + wire.blob(2, node.plane)) + b"".join(wire.blob(12, put) for put in puts)
            return node.ask(wire.blob(wire.PEER_BIND, body), tag)

        good = wire.blob(1, handle) + wire.blob(3, wire.contiguous(8))
        for puts in ([], [good] * (MOST + 1)):
            kind, body = ask(puts, 7)
            self.assertEqual((kind, wire.STATUS[body[1][0]]), (wire.FAILURE, "-EPROTO"))
        bads = (b"", wire.blob(1, handle), wire.blob(1, handle[:63]) + wire.blob(3, wire.contiguous(8)),
                wire.blob(1, handle) + wire.blob(3, wire.contiguous(1 << 21)), wire.number(4, 1) + wire.number(5, 1 << 40),
                wire.blob(1, handle) + wire.number(2, (1 << 64) - 1) + wire.blob(3, wire.contiguous(8)))
        for number, bad in enumerate(bads):
            at = (0, 100, MOST - 1)[number % 3]
            kind, body = ask([good] * at + [bad] + [good] * (MOST - 1 - at), 8)
            self.assertEqual((kind, 6 in body, body.get(8, [0])), (wire.PEER_BOUND, False, [at]))
            self.assertIn(wire.STATUS[wire.fields(body[7][0])[1][0]], ("-EINVAL", "-EOWNERDEAD", "-EPROTO"))
        harness.until(lambda: self.held(cluster[0]) == 0, "nothing is bound")
        kind, body = ask([good] * MOST, 9)
        self.assertEqual((kind, len(body[6])), (wire.PEER_BOUND, MOST))
        self.assertGreater(self.held(cluster[0]), 0)
        node.peer.shutdown(socket.SHUT_RDWR)  # the requester has gone: its link is forgotten when the node is back
        harness.until(lambda: self.held(cluster[0]) == 0, "nothing is bound")
        self.assert_well(cluster[0])

    def test_offers(self):
        """Offers for a rail that needs none, for no rail, of any size; and replies to offers that were never made."""
        cluster, node, _, _ = self.setting(lambda node, number, count: node.bind(count))
        rail = wire.blob(1, wire.blob(1, "ofi") + wire.blob(2, node.plane))
        for offer in (b"", rail, rail + wire.number(2, 1) + wire.blob(3, bytes(64)), rail + wire.number(2, (1 << 64) - 1) + wire.blob(3, bytes(1 << 16)),
                      wire.blob(1, wire.blob(1, "hca") + wire.blob(2, "x" * 4096)) + wire.number(2, 1) + wire.blob(3, bytes(64))):
            node.send(wire.blob(wire.PEER_OFFERED, wire.number(1, 1) + wire.blob(3, offer)), 4711)
            node.send(wire.blob(wire.PEER_OFFER, offer))  # to be told, not answered
            kind, body = node.ask(wire.blob(wire.PEER_OFFER, offer), 7)
            self.assertEqual((kind, wire.STATUS[body[1][0]]), (wire.FAILURE, "-ENETDOWN"))
            self.assertIn("takes offers", body[2][0].decode())
        self.assert_well(cluster[0])

    def test_landings_of_others(self):
        """A landing that was agreed with one node over the rail tcp cannot be used by another, even if that has found out its
        number."""
        cluster = self.cluster(3, options={"control.security": "plain", "rails.enable": "shm ofi tcp", "rails.tcp_security": "plain"})
        plane = next(rail["plane"] for rail in cluster[0].tcactl("status")["rails"] if rail["driver"] == "tcp")
        client = self.open(cluster[0])
        handle = client.alloc(4096)[2]
        nodes = []
        cluster[2].kill()  # it would connect to the false node 1
        for number in (1, 2):
            own = struct.pack("<IHBBQQ32s16xHBx140x", 0x41504354, 2, 0, 1, number, 0, bytes([number] * 32), 1, 4)  # drivers/tcp/tcp_wire.h
            rail = wire.blob(6, wire.blob(1, "tcp") + wire.blob(2, own) + wire.blob(3, "tcp:far") + wire.blob(4, plane))
            nodes.append(FalseNode(cluster, number, None, rail))
            self.addCleanup(nodes[-1].close)
            harness.until(lambda number=number: cluster[0].ping(cluster[number]), "the false node is up")
        bind = wire.number(2, 99) + wire.blob(3, "") + wire.blob(13, wire.blob(1, "tcp") + wire.blob(2, plane))
        _, body = nodes[0].ask(wire.blob(wire.PEER_BIND, bind + wire.blob(12, wire.blob(1, handle) + wire.blob(3, wire.contiguous(8)))), 7)
        landing = wire.fields(wire.fields(body[6][0])[2][0])[2][0]
        door = next(rail[2][0] for rail in map(wire.fields, nodes[1].hello[6]) if rail[1][0] == b"tcp")
        for number, received in ((2, False), (1, True)):
            with socket.create_connection((harness.ADDRESS, rail_port(cluster[0], "tcp")), harness.DEADLINE_S) as rail:
                self.assertEqual(self.put_over(rail, door[24:56], number, landing[4:12]), received)
        self.assert_well(cluster[0])

    @staticmethod
    def put_over(rail, secret, number, landing):
        """Whether a put by that false node was accepted."""
        challenge = rail.recv(40, socket.MSG_WAITALL)
        hello = struct.pack("<IHHQQQ32x", 0x48504354, 2, 0, number, 0, 1)
        rail.sendall(hello + b"".join(hmac.digest(key, b"H" + challenge[8:] + hello, "sha256") for key in (secret, bytes([number] * 32))))
        assert len(rail.recv(48, socket.MSG_WAITALL)) == 48  # welcome
        rail.sendall(struct.pack("<BBHI8sQQ", 1, 3, 0, 8, landing, 0, 0) + b"not good")
        try:
            return len(rail.recv(32, socket.MSG_WAITALL)) == 32
        except ConnectionError:
            return False

    @staticmethod
    def held(node):
        families = {family["name"]: family for family in node.tcactl("stats")["families"]}
        return sum(sample["value"] for sample in families.get("tcad_user_bytes", {"samples": []})["samples"]
                   if sample["labels"]["kind"] == "bindings")


if __name__ == "__main__":
    harness.main()
