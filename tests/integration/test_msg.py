#!/usr/bin/env python3
"""Random messages between ranks, on one node and several, on every rail and in both seats, against sequential matching; a killed
rank, one that is stopped for a while, and one that sends garbage."""

import math
import signal

import boards
import harness
from ranks import RANDOM, SEED, Ranks, any_places, several_each

ROUNDS = 6
GRIDS = ("16", "4 4", "3 5", "2 3 2", "2 2 2 2")


class Msg(Ranks):
    group = "msg"

    def start(self, cluster, places, words, late=False, **environment):
        return super().start(cluster, places, words, late, TCA_TIMEOUT="50s", **environment)

    def msg(self, cluster, places, *fate, rounds=ROUNDS, victim=None, late=False, groups="all", **environment):
        """Ranks of msg/msg.c."""
        words = [harness.program("msg"), str(SEED), str(rounds), groups, *map(str, fate)]
        self.ranks(cluster, places, words, victim, late, **environment)

    def test_one_node(self):
        cluster = self.cluster()
        for ranks in (1, 2, 5, 8):
            with self.subTest(ranks=ranks):
                self.msg(cluster, [0] * ranks)

    def test_one_node_by_its_daemon(self):
        cluster = self.cluster()
        for ranks in (1, 3):
            with self.subTest(ranks=ranks):
                self.msg(cluster, [0] * ranks, TCA_SEAT="daemon")

    def test_many_nodes(self):
        """Up to sixteen ranks on up to sixteen nodes, the last of which starts late; one dies; grids of tca-qmp.h."""
        rails = RANDOM.choice(("shm tcp", "shm tcp ofi"))
        cluster = self.cluster(16, options={"rails.enable": rails})
        for _ in range(harness.rounds(1)):
            places, seat = any_places(), RANDOM.choice(("any", "daemon"))
            with self.subTest(rails=rails, places=places, seat=seat, seed=SEED):
                self.msg(cluster, places, rounds=4, late=True, TCA_SEAT=seat)
            places, victim = RANDOM.choices(range(16), k=16), RANDOM.randrange(16)
            with self.subTest(rails=rails, places=places, victim=victim, seed=SEED):
                self.msg(cluster, places, "kill", victim, rounds=4, victim=victim)
            grid = RANDOM.choice(GRIDS).split()
            places = RANDOM.choices(range(16), k=math.prod(map(int, grid)))
            with self.subTest(rails=rails, places=places, grid=grid, seed=SEED):
                self.ranks(cluster, places, [harness.program("qmp"), *grid], late=True)

    def test_boards(self):
        cluster = boards.Ring(4, {"rails.calibration": "off"})
        self.addCleanup(self.take_down, cluster)
        self.msg(cluster.up(), [0, 1, 2, 3], rounds=4, TCA_RAIL="peach2")

    def client_seat(self, security="plain"):
        return self.cluster(2, options={"rails.enable": "shm tcp", "rails.tcp_security": security})

    def test_client_seat_between_nodes(self):
        for security in ("plain", "tls"):
            cluster = self.client_seat(security)
            for places in ([0, 1], [0, 1, 1, 0]):
                with self.subTest(security=security, places=places):
                    self.msg(cluster, places, rounds=4, TCA_SEAT="client")
                    self.assertEqual(self.starts(cluster), [0, 0])

    def test_short_pairs_do_not_need_the_daemons(self):
        """Without a request for a seat, tcad carries none of their messages, also between nodes; with one, it carries all."""
        for places, seat, by_daemon in (([0, 0], "any", False), ([0, 1], "any", False), ([0, 1], "daemon", True)):
            with self.subTest(places=places, seat=seat):
                cluster = self.client_seat()
                self.ranks(cluster, places, [harness.program("msg-short")], TCA_SEAT=seat)
                self.assertEqual([starts > 0 for starts in self.starts(cluster)], [by_daemon] * 2)

    @staticmethod
    def starts(cluster):
        """Of each daemon."""
        return [sample["value"] for node in cluster.nodes for family in node.tcactl("stats")["families"]
                if family["name"] == "tcad_engine_starts" for sample in family["samples"]]

    def test_client_seat_ends_between_nodes(self):
        cluster = self.client_seat()
        for program, *arguments in (["msg-errors"], ["msg-straight"], ["msg-hostile", str(SEED)]):
            with self.subTest(program=program):
                self.ranks(cluster, [0, 1], [harness.program(program), *arguments], TCA_SEAT="client")
        for places in ([0, 1, 0, 1], [1, 0, 1, 0]):
            with self.subTest(places=places):
                self.msg(cluster, places, "kill", 1, victim=1, TCA_SEAT="client")

    def test_ofi_within_a_node(self):
        self.msg(self.cluster(options={"rails.enable": "shm ofi"}), [0, 0], rounds=4, TCA_RAIL="ofi")

    def test_errors(self):
        cluster = self.cluster(2, options={"rails.enable": "shm ofi"})
        for places in ([0, 0], [0, 1]):
            with self.subTest(places=places):
                self.ranks(cluster, places, [harness.program("msg-errors")])

    def test_again_and_again(self):
        """Messengers one after the other do not disturb each other; a rank that only sends is told that another has ended."""
        cluster = self.cluster(2, options={"rails.enable": "shm tcp"})
        for places, seat in (([0, 0], "any"), ([0, 1], "any"), ([0, 1, 1], "daemon")):
            with self.subTest(places=places, seat=seat):
                self.ranks(cluster, places, [harness.program("msg-again")], TCA_SEAT=seat)
        for places, seat in (([0, 0], "any"), ([0, 1], "any"), ([0, 1], "daemon")):
            with self.subTest(places=places, seat=seat, ended=1):
                self.ranks(cluster, places, [harness.program("msg-again"), "ended"], victim=1, TCA_SEAT=seat)

    def test_copied_without_plans(self):
        self.ranks(self.cluster(), [0, 0], [harness.program("msg-direct")])

    def test_between_private_memory(self):
        """From and to memory of all kinds; where the kernel forbids one rank to reach the others', with children, and as one dies."""
        cluster = self.cluster(2, options={"rails.enable": "shm tcp"})
        words = [harness.program("msg-private"), str(SEED)]
        for places, *fate in (([0, 0],), ([0] * 3,), ([0, 1, 0],), (several_each(2, 16),), ([0, 0], "idle"), ([0, 0], "forbidden"), ([0] * 3, "forbidden"),
                              ([0] * 3, "forked"), ([0] * 4, "killed"), ([0, 0, 1], "killed")):
            with self.subTest(places=places, fate=fate, seed=SEED):
                self.ranks(cluster, places, [*words, *fate], victim=1 if fate == ["killed"] else None)

    def test_any_rank_and_tag(self):
        cluster = self.cluster(2, options={"rails.enable": "shm tcp"})
        words = [harness.program("msg-any"), str(SEED)]
        for places, seat in (([0], "any"), ([0] * 2, "any"), ([0] * 5, "any"), ([0, 1, 0, 1], "any"), ([0, 1, 1], "daemon"),
                             (several_each(2, 16), "any")):
            with self.subTest(places=places, seat=seat, seed=SEED):
                self.ranks(cluster, places, words, TCA_SEAT=seat)
        for places in ([0] * 3, [0, 1, 1]):
            with self.subTest(places=places, reversed=1, seed=SEED):
                self.ranks(cluster, places, [*words, "reversed"])
        for places in ([0] * 4, [0, 0, 1, 1]):
            with self.subTest(places=places, ended=1):
                self.ranks(cluster, places, [*words, "ended"], victim=1)

    def test_modes(self):
        """Contexts, synchronous sends, messages that are taken, receives that are cancelled."""
        cluster = self.cluster(2, options={"rails.enable": "shm tcp"})
        for places, seat in (([0], "any"), ([0, 0], "any"), ([0, 1], "any"), ([0, 1, 0], "daemon")):
            with self.subTest(places=places, seat=seat):
                self.ranks(cluster, places, [harness.program("msg-modes")], victim=1 if len(places) > 1 else None, TCA_SEAT=seat)

    def test_complete_and_queued_messages(self):
        """Complete sends need no further call of the sender; queued ones end with the messenger."""
        cluster = self.cluster()
        for seat, program, *arguments in (("any", "msg-complete"), ("any", "msg-complete", "ahead"), ("daemon", "msg-complete", "ahead"),
                                          ("any", "msg-leave")):
            with self.subTest(seat=seat, program=program, arguments=arguments):
                self.ranks(cluster, [0, 0], [harness.program(program), *arguments], TCA_SEAT=seat, TCA_TUNE="off")

    def test_straight_into_blocks(self):
        cluster = self.cluster(2)
        for places in ([0, 0], [0, 1]):
            for seat in ("any", "daemon"):
                with self.subTest(places=places, seat=seat):
                    self.ranks(cluster, places, [harness.program("msg-straight")], TCA_SEAT=seat)

    def test_hostile_rank(self):
        cluster = self.cluster()
        self.ranks(cluster, [0, 0], [harness.program("msg-hostile"), str(SEED)])

    def test_one_is_killed(self):
        cluster = self.cluster(2)
        for places in ([0] * 4, [0, 1, 0, 1]):
            with self.subTest(places=places):
                self.msg(cluster, places, "kill", 1, victim=1)

    def test_groups(self):
        """Messengers of nested and overlapping groups at the same time, on one node and several; a rank of some of them dies."""
        for nodes, ranks, seat in ((1, 3, "any"), (2, 3, "daemon"), (2, 16, "any"), (4, 16, "any")):
            cluster = self.cluster(nodes)
            places = several_each(nodes, ranks)
            with self.subTest(places=places, seat=seat, seed=SEED):
                self.msg(cluster, places, rounds=4, groups="parts", TCA_SEAT=seat)
            victim = RANDOM.randrange(ranks)
            with self.subTest(places=places, seat=seat, victim=victim, seed=SEED):
                self.msg(cluster, places, "kill", victim, rounds=3, victim=victim, groups="parts", TCA_SEAT=seat)

    def test_one_is_stopped(self):
        cluster = self.cluster(2)
        words = [harness.program("msg"), str(SEED), "3", "all", "stop", "1"]
        processes = self.start(cluster, [0, 1, 0], words)
        harness.until(lambda: self.is_stopped(processes[1]), "the rank has stopped")
        processes[1].send_signal(signal.SIGCONT)
        self.finish(processes, "stopped")
        self.released(cluster)


if __name__ == "__main__":
    harness.main()
