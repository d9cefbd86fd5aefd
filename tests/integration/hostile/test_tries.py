#!/usr/bin/env python3
"""Requests to try rails and seats: forged, for plans that may not move or that belong to others, in every state of a plan, in
floods, and from a client that reads nothing. They move nothing but the client's own plans."""

import contextlib
import os
import random
import socket

import hostile
import wire
import harness  # the path to it is set by hostile
from harness import Stream, until

CLIENT, DAEMON = 1, 2
LONG, SHORT = 1 << 18, 64
RAILS = (0, 1, 2, 3, 4, 21, 22, 31, 32, 33, 255, 1 << 31, (1 << 32) - 1)
SEATS = (0, CLIENT, DAEMON, 3, 4, 255, 1 << 31, (1 << 32) - 1)
PLANS = (0, 1, 7, 4095, 4096, 1 << 20, (1 << 32) - 1)
CHAINS = (0, 1, 2, 1 << 63, (1 << 64) - 1)
FLOOD = 20000
ROUTE_CHANGED = 15
ONE_RAIL = {"rails.enable": "shm tcp", "rails.tcp_security": "plain"}
TWO_RAILS = {**ONE_RAIL, "rail tcp:b.driver": "tcp", "rail tcp:b.plane": "b", "rail tcp:b.security": "plain"}


class Tries(hostile.HostileCase):
    def two(self, options):
        cluster = self.cluster(2, options=options)
        receiver = cluster.actor(1)
        receiver.ask("open - 0 1 -1")
        target = receiver.alloc(LONG)
        return cluster, receiver, bytes.fromhex(receiver.handle(target))

    def attacker(self, cluster):
        client = self.open(cluster[0])
        region, _, own = client.alloc(LONG)
        return client, region, own

    @staticmethod
    def commit(client, region, handle, size=LONG, chains=1, **arguments):
        steps = [wire.put(region, handle, wire.contiguous(size), b"")]
        _, body, _ = client.ask(wire.commit(*[steps] * chains, tries=1, **arguments))
        return body.get(1, [0])[0], body.get(3, [0])[0]

    @staticmethod
    def moves(client):
        """(plan, turn, seat) of the moves that it was told of."""
        moves = []
        for event in client.events:
            if event.get(1, [0])[0] == ROUTE_CHANGED:
                changed = wire.fields(event[15][0])
                moves.append((event.get(4, [0])[0], changed.get(2, [0])[0], wire.fields(changed[1][0]).get(2, [0])[0]))
        return moves

    @staticmethod
    def hears(client):
        """An answer: everything before it was dealt with."""
        with contextlib.suppress(wire.Failure):
            client.ask(wire.blob(wire.REGION_FREE, wire.number(1, 1 << 40)))

    def between(self, cluster):
        return self.bystanders(cluster, (0, 1), ("any", "daemon"))

    def tried(self, node):
        return next(family for family in node.tcactl("stats")["families"] if family["name"] == "tcad_plans_tried")["samples"][0]["value"]

    def test_forged(self):
        """All plans, rails, seats and chains: the client is not told of a move that it could not have, and lives on."""
        for options in (ONE_RAIL, TWO_RAILS):
            cluster, _, handle = self.two(options)
            with self.undisturbed(cluster, self.between(cluster), count_fds=False):
                client, region, own = self.attacker(cluster)
                plans = [self.commit(client, region, where, **wishes)[0]
                         for where, wishes in ((handle, {}), (own, {}), (handle, {"size": SHORT}), (handle, {"seat": DAEMON}),
                                               (handle, {"seat": CLIENT}), (handle, {"chains": 3}), (handle, {"found_seat": 77}),
                                               (handle, {"found_seat": DAEMON}))]
                movable = {plans[0], plans[5], plans[6], plans[7]} | ({plans[2]} if options is TWO_RAILS else set())
                for plan in [*plans, *PLANS]:
                    for seat in SEATS:
                        for rail in RAILS if seat == 0 else (0, 2, (1 << 32) - 1):
                            client.send(wire.plan_try(plan, seat, rail, random.choice(CHAINS), random.randrange(2),
                                                      random.getrandbits(32), below=random.randrange(8) == 0,
                                                      joins=random.randrange(4) > 0))
                    self.hears(client)
                    self.assert_well(cluster[0])
                self.assertLessEqual({plan for plan, _, _ in self.moves(client)}, movable)
                for plan in (plans[0], plans[5]):
                    until(lambda p=plan: self.hears(client) or p in {moved for moved, _, _ in self.moves(client)}, "it moves")
                for plan in plans:
                    client.ask(wire.release(plan))
                client.close()

    def test_other_sessions_plans(self):
        """They have the numbers that the client names."""
        cluster, *_ = self.two(ONE_RAIL)
        client, *_ = self.attacker(cluster)
        victims = cluster.group([0, 1], name="victims", TCA_TUNE="off")
        stream = Stream(*victims, shape=str(LONG))
        stream.begin()
        before = self.tried(cluster[0])
        for number in range(2000):
            client.send(wire.plan_try(number % 16, DAEMON if number % 2 else 0, 2, found=number % 3 == 0, turn=number))
        self.hears(client)
        self.assertGreater(stream.finish(), 0)
        self.assertEqual(victims[0].receipt(stream.plan)["seat"], "client")
        self.assertEqual(self.tried(cluster[0]), before)
        self.assertEqual(self.moves(client), [])
        self.assert_well(cluster[0])

    def test_joins_and_parts(self):
        """An honest walk, in disorder: tcad answers with the seat that the plan has, and holds nothing of the other one."""
        cluster, _, handle = self.two(ONE_RAIL)
        with self.undisturbed(cluster, self.between(cluster), count_fds=False):
            client, region, _ = self.attacker(cluster)
            plan, offered = self.commit(client, region, handle)
            self.assertEqual(offered, 1)
            self.assertEqual(self.commit(client, region, handle, size=SHORT)[1], 0)
            # about starts in tcad's seat, which it has left: nothing is bound there for it
            client.send(wire.plan_try(plan, DAEMON, turn=77, joins=0))
            until(lambda: self.hears(client) or (plan, 77, CLIENT) in self.moves(client), "it is answered")
            turn = 0
            for seat in (DAEMON, DAEMON, CLIENT, DAEMON, CLIENT, CLIENT, DAEMON):
                turn += 1
                client.send(wire.plan_try(plan, seat, turn=turn))
                if seat == CLIENT and self.moves(client) and self.moves(client)[-1][2] == CLIENT:
                    continue  # it is there: no answer
                until(lambda t=turn, s=seat: self.hears(client) or (plan, t, s) in self.moves(client), "it has moved")
                seats = {"client": CLIENT, "daemon": DAEMON}
                self.assertEqual([seats[row["seat"]] for row in cluster[0].plans() if row["name"] == "plan" and row["bytes"] == LONG], [seat])
            client.close()

    def test_falls_before_it_has_parted(self):
        """The client asks tcad to leave its seat, and at once says that it has lost its pairs: the plan keeps the seat that it has."""
        cluster, _, handle = self.two(ONE_RAIL)
        with self.undisturbed(cluster, self.between(cluster), count_fds=False):
            client, region, _ = self.attacker(cluster)
            for turn in range(1, 21, 2):
                plan, _ = self.commit(client, region, handle)
                client.send(wire.plan_try(plan, DAEMON, turn=turn))
                until(lambda p=plan, t=turn: self.hears(client) or (p, t, DAEMON) in self.moves(client), "it has joined")
                client.send(wire.plan_try(plan, CLIENT, turn=turn + 1))
                client.send(wire.plan_try(plan, DAEMON, below=1))
                until(lambda p=plan, t=turn: self.hears(client) or
                      {(p, t + 1, DAEMON), (p, t + 1, CLIENT)} & set(self.moves(client)), "it is answered")
                client.ask(wire.release(plan))
            self.assert_well(cluster[0])
            client.close()

    def test_every_state(self):
        """While it is committed, moved, broken and released; when its client goes; when its receiver does."""
        cluster, receiver, handle = self.two(ONE_RAIL)
        streams = self.between(cluster)

        def shower(to, count=12):
            for _ in range(count):
                to.send(wire.plan_try(random.randrange(4), random.choice(SEATS[:3]), random.choice(RAILS[:5]), turn=random.getrandbits(32)))

        with self.undisturbed(cluster, streams, count_fds=False):
            client, region, _ = self.attacker(cluster)
            steps = [wire.put(region, handle, wire.contiguous(LONG), b"")]
            for number in range(60):
                shower(client)
                client.send(wire.commit(steps, tries=1))
                tag = client.tag
                shower(client, number % 13)
                while True:  # the reply to the commit
                    answered, kind, body, fds = client.receive()
                    for fd in fds:
                        os.close(fd)
                    if answered == tag and kind != wire.EVENT:
                        break
                plan = body.get(1, [0])[0]
                shower(client, number % 29)
                if number % 3 == 0:
                    self.hears(client)
                client.send(wire.release(plan))
                shower(client)
                self.hears(client)
            for number in range(6):
                other = self.open(cluster[0])
                own_region, _, _ = other.alloc(LONG)
                self.commit(other, own_region, handle)
                shower(other, 1 + number * 9)
                other.close()
            plan = self.commit(client, region, handle)[0]
            client.send(wire.plan_try(plan, DAEMON, turn=1))
            if random.random() < 0.5:
                self.hears(client)
            receiver.kill()
            shower(client, 40)
            until(lambda: self.hears(client) or any(event.get(1, [0])[0] == 3 for event in client.events), "its plan breaks")
            shower(client, 40)
            client.ask(wire.release(plan))
            until(lambda: not [row for row in cluster[0].plans() if row["bytes"] == LONG], "all plans are gone")
            client.close()

    def test_floods(self):
        """As fast as it can, for moves to and fro, without reading an answer: others go on, and tcad keeps no more for it than for
        anybody."""
        for options in (ONE_RAIL, TWO_RAILS):
            cluster, _, handle = self.two(options)
            with self.undisturbed(cluster, self.between(cluster), count_fds=False):
                client, region, _ = self.attacker(cluster)
                plan, _ = self.commit(client, region, handle)
                before = cluster[0].memory_kib()
                client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                with contextlib.suppress(wire.Gone, TimeoutError, BlockingIOError):
                    for number in range(FLOOD):
                        client.send(wire.plan_try(plan, (DAEMON, CLIENT)[number // 3 % 2] if options is ONE_RAIL else 0, 2 + number % 2,
                                                  turn=number))
                        if number % 4000 == 0:
                            self.assert_well(cluster[0])
                self.assert_well(cluster[0])
                self.assertLess(cluster[0].memory_kib(), before + (64 << 10))
                client.close()


if __name__ == "__main__":
    harness.main()
