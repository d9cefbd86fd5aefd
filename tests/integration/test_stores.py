#!/usr/bin/env python3
"""CPU stores of the TCA API, and boards that die under them: the next rail repeats the store in flight, before later ones. The
processes meanwhile only poll for each other's flags. Without any rail, they get an error."""

import time

import harness
from actors import Actor
from boards import Boards
from harness import until

NOT_READY, PEER_LOST = "5", "6"  # tca-api.h, TCA_ERROR_


class Stores(Boards):
    def job(self, cluster, name="job"):
        """A process for each node."""
        size = len(cluster.nodes)
        leaves = {"ASAN_OPTIONS": "detect_leaks=0"}  # a process of this API just exits
        job = [Actor(node, {"TCA_GROUP": name, "TCA_RANK": str(rank), "TCA_SIZE": str(size), **leaves}, "storer")
               for rank, node in enumerate(cluster.nodes)]
        cluster.actors += job
        for process in job:
            process.asked = "tcaInit()"
            process.answer()
        return job

    def begin(self, cluster):
        """All of them in endless rounds but the first, which makes some at a time."""
        job = self.job(cluster)
        for process in job[1:]:
            process.tell("stop")
        self.rounds(job)
        return job

    @staticmethod
    def rounds(job):
        return int(job[0].ask("rounds")[0])

    def finish(self, job):
        job[0].tell("stop")
        self.assertEqual(len({process.answer()[0] for process in job}), 1)

    @staticmethod
    def rails(node, process):
        """The rail of a process's latest stores."""
        return {plan["driver"] for plan in node.plans() if plan["pid"] == process.pid and plan["name"] == "tca-api PIO"}

    def kill_under_way(self, cluster, job, number):
        """Its board dies for good, in the middle of a round; some rounds after that."""
        job[0].tell("rounds")
        time.sleep(0.01)
        cluster.kill_board(number)
        job[0].answer()
        self.rounds(job)

    def test_board_of_one(self):
        """The others continue with it over the next rail, with each other over their boards."""
        cluster = self.ring(3)
        job = self.begin(cluster)
        self.assertEqual(self.rails(cluster[0], job[0]), {"peach2"})
        self.kill_under_way(cluster, job, 2)
        self.finish(job)
        self.assertEqual(self.rails(cluster[0], job[0]), {"peach2", "ofi"})
        self.assertEqual(self.rails(cluster[2], job[2]), {"ofi"})

    def test_again_and_again(self):
        """It is back, and stores return to it; it dies again, and then the other one."""
        cluster = self.ring(2, rails__return_after="300ms")
        job = self.begin(cluster)
        for number in (1, 0):
            self.kill_under_way(cluster, job, number)
            self.assertIn("ofi", self.rails(cluster[0], job[0]))
            cluster.start_board(number)
            for node in cluster.nodes:
                cluster.wait_cables(node, set())
            until(lambda: self.rounds(job) and self.rails(cluster[0], job[0]) == {"peach2"}, "stores go back to the boards")
        self.finish(job)

    def test_who_ends(self):
        """A process ends right after a store that its board no longer carries."""
        cluster = self.ring(2)
        receiver, sender = self.job(cluster)
        sender.ask("store 0")
        receiver.tell("await 1")
        cluster.kill_board(1)
        sender.ask("store 0")
        sender.tell("quit 0")
        self.assertEqual(receiver.answer(), ["2"])
        self.assertIsNone(sender.end())

    def test_descriptors(self):
        """The board dies in the middle of a start, which fails; repeating it uses the next rail, and both together notify once."""
        cluster = self.ring(2)
        receiver, sender = self.job(cluster)
        for number in range(1, 4):
            sender.ask("start 0")
            self.assertEqual(receiver.ask("receive 1"), [str(number)])
        cluster.kill_board(1)
        with self.refused(PEER_LOST, "rail down"):
            sender.ask("start 0")
        for number in range(4, 7):
            sender.ask("start 0")
            self.assertEqual(receiver.ask("receive 1"), [str(number)])
            with self.refused(NOT_READY):
                receiver.ask("test 1")

    def test_no_other_rail(self):
        """Stores fail with the reason while no rail reaches the target; then they arrive again."""
        cluster = self.ring(2, rails__enable="shm peach2")
        receiver, sender = self.job(cluster)
        sender.ask("store 0")
        cluster.kill_board(0)
        with self.refused(PEER_LOST, "no cable"):
            while True:
                sender.ask("store 0")
        for command in ("store 0", "store 0"):
            with self.refused(PEER_LOST, "tcaSendPIO", "no cable"):
                sender.ask(command)
        sender.ask("commit")  # nothing is under way
        cluster.start_board(0)
        for node in cluster.nodes:
            cluster.wait_cables(node, set())

        def stored():
            try:
                sender.ask("store 0")
            except harness.Failed as error:
                self.assertEqual(error.name, PEER_LOST, error.text)
                return False
            return True
        until(stored, "stores go by the boards again")
        sender.tell("quit 0")
        receiver.ask("await 1")
        self.assertIsNone(sender.end())


if __name__ == "__main__":
    harness.main()
