#!/usr/bin/env python3
"""Clients that split, shrink, use and release groups as libtca never would: each request gets its answer, correct ranks go on, and
nothing is left of any of it."""

import os
import random
import secrets

import grouped
import wire
import harness  # the path to it is set by hostile

SEED = int(os.environ.get("TCA_TEST_SEED", secrets.randbits(20)))
PLACES = [0, 1, 0, 1]
NONE = 0xFFFFFFFF
SHORT_NS = 3 * 10**8
STRANGER = 65534


class Groups(grouped.GroupCase):
    def all_fail(self, answers, name, *texts):
        for answer in answers:
            self.assertIsInstance(answer, wire.Failure, answer)
            self.assertEqual(answer.name, name, answer.text)
            for text in texts:
                self.assertIn(text, answer.text)

    def test_other_numbers(self):
        cluster = self.cluster(2)
        clients = self.join(cluster, PLACES)
        first = clients[0]
        groups = self.split(clients, [0, 0, 1, 1])
        self.assertEqual((groups[0], groups[2]), (groups[1], groups[3]))
        requests = {"gather": lambda group: wire.gather(0, group=group), "split": lambda group: wire.group_split(0, group=group),
                    "shrink": wire.group_shrink, "release": wire.group_release}
        for what, request in requests.items():
            for group in (1, 12345, groups[0] + 1, (1 << 64) - 1, groups[2]):
                with self.subTest(what=what, group=group), self.fails("-ENOENT", f"has no group {group}", "belongs to others"):
                    first.ask(request(group))
        with self.fails("-EINVAL", "leaves its own group when it ends"):
            first.ask(wire.group_release(0))
        for sequence in (1 << 62, 1 << 63, (1 << 64) - 1):
            for request in (wire.gather, wire.group_split):
                with self.fails("-EINVAL", f"{sequence} is not the number of a collective call"):
                    first.ask(request(sequence, group=groups[0]))
        alone = self.open(cluster[0])
        for request in requests.values():
            with self.fails("-ENOENT", "has no group"):
                alone.ask(request(groups[0]))
        if os.geteuid() == 0:
            cluster.admit_users()
            stranger = wire.Client.of_user(STRANGER, cluster[0].socket).open()
            self.addCleanup(stranger.close)
            for what, request in requests.items():
                with self.subTest(what=what, uid=STRANGER), self.fails("-ENOENT", "has no group"):
                    stranger.ask(request(groups[0]))
        self.barrier(clients)
        self.barrier(clients[:2], groups[0])
        self.assertEqual(first.ask(wire.group_release(groups[0]))[0], wire.DONE)
        for what, request in requests.items():
            with self.subTest(what=what, released=1), self.fails("-ENOENT", "it was released"):
                first.ask(request(groups[0]))
        with self.fails("-ECANCELED", "has released the group"):
            clients[1].ask(wire.gather(clients[1].calls[groups[0]], group=groups[0]))
        self.barrier(clients[2:], groups[2])
        self.barrier(clients)

    def test_colours_and_keys(self):
        cluster = self.cluster(2)
        clients = self.join(cluster, PLACES)
        keys = [2**31 - 1, -2**31, 0, -1]
        answers = self.together(clients, lambda client: wire.group_split(1, NONE - 1, keys[clients.index(client)]))
        for kind, body in answers:
            self.assertEqual((kind, wire.varints(body[2][0])), (wire.GROUP_PART, [1, 3, 2, 0]))
        answers = self.together(clients, lambda client: wire.group_split(2, NONE))
        self.assertEqual([(kind, body.get(2)) for kind, body in answers], [(wire.GROUP_PART, None)] * 4)
        answers = self.together(clients, lambda client: wire.group_split(3, clients.index(client)))
        self.assertEqual([(kind, body.get(1), body.get(2)) for kind, body in answers], [(wire.GROUP_PART, None, None)] * 4)

    def test_a_rank_takes_part_twice(self):
        """And a hundred times: the further requests are refused, the first one is completed by the others'."""
        cluster = self.cluster(2)
        for first in (wire.group_split(1), wire.gather(1)):
            clients = self.join(cluster, PLACES, name=f"twice{first[0]}")
            twice = clients[0]
            others = (wire.group_split(1), wire.group_split(2, 1), wire.gather(1), wire.group_shrink())
            twice.send(first)
            begun = twice.tag
            for other in others * 25:
                with self.fails("-EBUSY", "rank 0 is in a collective call already"):
                    twice.ask(other)
            for client in clients[1:]:
                client.send(first)
            twice.tag = begun
            kinds = {client.answer()[0] for client in clients}
            self.assertEqual(len(kinds), 1, kinds)
            twice.tag = begun + 100
            for client in clients:
                client.calls[0] = 2
            self.barrier(clients)

    def test_different_calls(self):
        """They fail at all ranks that have made one. A rank that comes later waits for the others to repeat it."""
        cluster = self.cluster(2)
        clients = self.join(cluster, PLACES)
        for odd in (wire.gather(1), wire.gather(1, bytes(8)), wire.group_split(2), wire.gather(7)):
            answers = self.together(clients, lambda client, odd=odd: odd if client is clients[2] else
                                    wire.group_split(1, timeout_ns=SHORT_NS))
            self.all_fail([answers[0], answers[2]], "-EPROTO", "rank")
            self.assertLessEqual({answer.name for answer in answers}, {"-EPROTO", "-ETIMEDOUT"})
        self.barrier(clients)

    def test_a_rank_does_not_come(self):
        """The others are told who is missing, and can repeat the call."""
        cluster = self.cluster(2)
        clients = self.join(cluster, PLACES)
        group = self.split(clients, [5] * 4)[0]
        for within in (0, group):
            for missing in (1, 2):
                some = [client for client in clients if client is not clients[missing]]
                answers = self.together(some, lambda client, within=within: wire.group_split(
                    client.calls[within], group=within, timeout_ns=SHORT_NS))
                self.all_fail(answers, "-ETIMEDOUT", str(missing))
            self.split(clients, [0, 0, 1, 1], within)
        some = clients[1:]
        self.all_fail(self.together(some, lambda client: wire.group_shrink(group, SHORT_NS)), "-ETIMEDOUT", "other survivors have not called")
        answers = self.together(clients, lambda client: wire.group_shrink(group))
        self.assertEqual([wire.varints(body[2][0]) for _, body in answers], [[0, 1, 2, 3]] * 4)

    def test_a_rank_disconnects_in_a_split(self):
        cluster = self.cluster(2)
        for victim in range(4):
            with self.subTest(victim=victim):
                clients = self.join(cluster, PLACES, name=f"victim{victim}")
                left = [client for client in clients if client is not clients[victim]]
                group = self.split(clients, [5] * 4)[0]
                if victim % 2:
                    clients[victim].send(wire.group_split(0, group=group))
                for client in left:
                    client.send(wire.group_split(0, group=group))
                clients[victim].close()
                answers = [self.answer_of(client) for client in left]
                if victim % 2 == 0 or isinstance(answers[0], wire.Failure):  # it had not made the call, or not completed it
                    self.all_fail(answers, "-EOWNERDEAD", f"rank {victim}", "has ended")
                else:
                    self.assertEqual([kind for kind, _ in answers], [wire.GROUP_PART] * 3)
                for within in (group, 0):
                    answers = self.together(left, lambda client, within=within: wire.group_shrink(within))
                    ranks = [rank for rank in range(4) if rank != victim]
                    self.assertEqual([wire.varints(body[2][0]) for _, body in answers], [ranks] * 3)
                    made = answers[0][1][1][0]
                    for client in left:
                        client.calls[made] = 0
                    self.barrier(left, made)
                for client in left:
                    client.close()

    def test_random_requests(self):
        """Each gets one answer. What is left running ends with the sessions."""
        cluster = self.cluster(2)
        numbers, made = random.Random(SEED), 0
        with self.undisturbed(cluster):
            for turn in range(harness.rounds(4)):
                clients = self.join(cluster, [0, 1, 0, 1, 1, 0], name=f"random{turn}")
                known = [0, 1, numbers.getrandbits(64)]
                for client in clients:
                    client.open_tags = set()
                for _ in range(60):
                    request = self.any_request(numbers, known)
                    for client in numbers.choice((clients, clients, clients[:3], numbers.sample(clients, 1))):
                        client.send(request)
                        client.open_tags.add(client.tag)
                    for client in clients:
                        self.take_some(client, known, numbers.choice((0.0001, 0.05)))
                for client in clients:
                    self.take_some(client, known, 2 * SHORT_NS / 1e9)
                    client.close()
                made += len(known) - 3
            self.assertGreater(made, 0, "some splits succeed")

    @staticmethod
    def any_request(numbers, known):
        group = numbers.choice(known[:3] + known[-20:])
        timeout_ns = numbers.choice((0, SHORT_NS // 10, SHORT_NS // 10, SHORT_NS))
        sequence = numbers.choice((0, 0, 1, 1, 2, 3, 1 << 63))
        kind = numbers.randrange(5)
        if kind == 0:
            return wire.gather(sequence, numbers.randbytes(numbers.choice((0, 8))), group, timeout_ns)
        if kind == 1:
            return wire.group_release(group)
        if kind == 2:
            return wire.group_shrink(group, timeout_ns)
        return wire.group_split(sequence, numbers.choice((0, 1, NONE)), numbers.randrange(-2, 2), group, timeout_ns)

    def take_some(self, client, known, wait_s):
        """The answers that come."""
        patience = client.socket.gettimeout()
        client.socket.settimeout(wait_s)
        try:
            while client.open_tags:
                tag, kind, body, _ = client.receive()
                if kind == wire.EVENT:
                    continue
                self.assertIn(tag, client.open_tags)
                client.open_tags.remove(tag)
                if kind == wire.GROUP_PART and 1 in body:
                    known.append(body[1][0])
        except TimeoutError:
            pass
        finally:
            client.socket.settimeout(patience)


if __name__ == "__main__":
    harness.main()
