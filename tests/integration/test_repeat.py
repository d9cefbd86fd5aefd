#!/usr/bin/env python3
"""Plans that repeat: one start, and a round for every notification, with or without the process."""

import os
import signal

import actors
import boards
import harness
from processes import until


class Relay:
    """Rank 0 puts numbers to rank 1, whose repeating plan adds each to a sum, and puts the sum back."""

    def __init__(self, driver, relay, seat):
        self.driver, self.relay = driver, relay
        self.number = driver.alloc(4096)
        self.answer = driver.alloc(4096)
        self.inbox = relay.alloc(4096)
        self.total = relay.alloc(4096)
        self.sum = 0
        self.send = driver.plan(f"put {self.number} 0 8 {relay.handle(self.inbox)} 0 8", "notify 1 0")
        self.plan = relay.plan("await 0 0 1", f"reduce {self.inbox} 0 8 {relay.handle(self.total)} 0 1 6",
                               f"put {self.total} 0 8 {driver.handle(self.answer)} 0 8", "notify 0 0", repeat=True, seat=seat)

    def put(self, number):
        self.driver.ask(f"fill {self.number} 0 8 {number}")
        self.sum += int.from_bytes(bytes.fromhex(self.driver.ask(f"read {self.number} 0 8")[0]), "little")
        self.driver.run(self.send)

    def check(self, case):
        self.driver.ask("notified_wait 1 0 -2")
        answer = int.from_bytes(bytes.fromhex(self.driver.ask(f"read {self.answer} 0 8")[0]), "little")
        case.assertEqual(answer, self.sum % 2**64)

    def rounds(self):
        return int(self.relay.ask(f"rounds {self.plan}")[0])


class Repeat(harness.Case):
    RAILS = "shm ofi"

    def relays(self):
        """In the daemon's seat, between processes of one node and of two."""
        cluster = self.cluster(2)
        for places in ([0, 0], [0, 1]):
            with self.subTest(places=places):
                yield Relay(*cluster.group(places, name=f"job{places[1]}"), "daemon")

    def test_without_the_process(self):
        """The relay's process is stopped meanwhile."""
        for relay in self.relays():
            relay.relay.ask(f"start {relay.plan}")
            harness.stop(relay.relay.pid)
            for number in range(20):
                relay.put(number)
                relay.check(self)
            os.kill(relay.relay.pid, signal.SIGCONT)
            until(lambda: relay.rounds() == 20, "the last round is counted")
            self.assertEqual(relay.relay.ask(f"test {relay.plan}"), ["0"])

    def test_stop_and_start_again(self):
        for relay in self.relays():
            rounds = 0
            for turn in range(6):
                relay.relay.ask(f"start {relay.plan}")
                for number in range(turn % 3):
                    relay.put(10 * turn + number)
                    relay.check(self)
                rounds += turn % 3
                relay.relay.ask(f"stop {relay.plan}")
                relay.relay.ask(f"stop {relay.plan}")
                self.assertEqual(relay.relay.ask(f"wait {relay.plan} -2"), ["0"])
                self.assertEqual(relay.rounds(), rounds)
                relay.put(turn)  # not before the next start
                self.assertEqual(relay.driver.ask("count 1 0"), ["0"])
                relay.relay.ask(f"start {relay.plan}")
                relay.check(self)
                rounds += 1
                relay.relay.ask(f"stop {relay.plan}")
                self.assertEqual(relay.relay.ask(f"wait {relay.plan} -2"), ["0"])
                self.assertEqual(relay.rounds(), rounds)

    def test_many_at_once(self):
        """Both seats, several chains: a round takes one notification for each chain; rounds whose notifications have arrived
        follow at once."""
        cluster = self.cluster(1)
        for seat in ("client", "daemon"):
            one, other = cluster.group([0, 0], name=seat)
            tell = one.plan("notify 1 0", "notify 1 1", name="tell")
            memory = other.alloc(4096)
            handle = other.handle(memory)
            other.ask(f"fill {memory} 0 8 1")
            plan = other.plan("await 0 0 1", f"reduce {memory} 0 8 {handle} 8 1 6", "chain", "await 0 1 1",
                              f"reduce {memory} 0 8 {handle} 16 1 6", repeat=True, seat=seat)
            for _ in range(100):
                one.run(tell)
            other.ask(f"start {plan}")
            until(lambda: other.ask(f"rounds {plan}") == ["100"], "100 rounds")
            other.ask(f"stop {plan}")
            self.assertEqual(other.ask(f"wait {plan} -2"), ["0"])
            self.assertEqual(other.ask(f"rounds {plan}"), ["100"])
            number, first, second = (int.from_bytes(bytes.fromhex(other.ask(f"read {memory} {at} 8")[0]), "little") for at in (0, 8, 16))
            self.assertEqual((first, second), (100 * number % 2**64,) * 2)
            other.ask(f"freeplan {plan}")

    def test_the_other_ends(self):
        cluster = self.cluster(2)
        for seat, places in (("client", [0, 0]), ("daemon", [0, 0]), ("daemon", [0, 1])):
            driver, relay = cluster.group(places, name=f"{seat}{places[1]}")
            pair = Relay(driver, relay, seat)
            relay.ask(f"start {pair.plan}")
            driver.kill()
            with self.assertRaises(actors.Failed) as caught:
                relay.ask(f"wait {pair.plan} -2")
            self.assertEqual(caught.exception.name, "-EOWNERDEAD")
            relay.ask(f"freeplan {pair.plan}")

    def test_one_of_two_ends(self):
        """A chain that does not need the ended rank does not prolong the failed round: it will never be notified."""
        cluster = self.cluster(1)
        for seat in ("client", "daemon"):
            one, other, relay = cluster.group([0, 0, 0], name=seat)
            plan = relay.plan("await 0 0 1", "notify 2 1", "chain", "await 1 0 1", "notify 2 1", repeat=True, seat=seat)
            relay.ask(f"start {plan}")
            with self.assertRaises(actors.Failed) as caught:
                relay.ask(f"wait {plan} 0")
            self.assertEqual(caught.exception.name, "-ETIMEDOUT")
            one.kill()
            with self.assertRaises(actors.Failed) as caught:
                relay.ask(f"wait {plan} -2")
            self.assertEqual(caught.exception.name, "-EOWNERDEAD")
            self.assertEqual(relay.ask(f"rounds {plan}"), ["0"])

    def test_freed_and_closed_while_it_waits(self):
        cluster = self.cluster(1)
        for seat in ("client", "daemon"):
            one, other = cluster.group([0, 0], name=seat)
            plans = [other.plan(f"await 0 {slot} 1", "notify 0 0", repeat=True, seat=seat) for slot in range(3)]
            for plan in plans:
                other.ask(f"start {plan}")
            other.ask(f"freeplan {plans[0]}")
            self.assertIsNone(other.end())  # closes its session

    def test_is_refused(self):
        actor, = self.cluster(1).group([0])
        for steps, *words in (([], "never wait"), (["notify 0 0"], "chain 0", "must begin with a wait"),
                              (["await 0 0 1", "chain", "notify 0 1"], "chain 1", "must begin with a wait")):
            with self.assertRaises(actors.Failed) as caught:
                actor.plan(*steps, repeat=True)
            self.assertEqual(caught.exception.name, "-EINVAL")
            for word in words:
                self.assertIn(word, caught.exception.text)
        with self.assertRaises(actors.Failed) as caught:
            actor.ask(f"stop {actor.plan('notify 0 0')}")
        self.assertIn("does not repeat", caught.exception.text)


class Rails(boards.Boards):
    def test_moves_between_rounds(self):
        """The rail is lost while the plan waits for its next round: the start continues over another one."""
        cluster = self.ring(2)
        relay = Relay(*cluster.group([1, 0]), "daemon")

        def plans():
            """The relay's rail, on node 0, and its driver."""
            return [node.tcactl("plan", node.plans()[0]["id"]) for node in cluster[:2]]

        def rails():
            return [plan["chains"][0]["driver"] for plan in plans()]

        self.assertEqual(rails(), ["peach2"] * 2)
        relay.relay.ask(f"start {relay.plan}")
        for number in range(3):
            relay.put(number)
            relay.check(self)
        until(lambda: relay.rounds() == 3, "the third round is over")
        cluster.kill_board(0)
        until(lambda: rails() == ["ofi"] * 2, "both plans have moved")
        for number in range(3, 6):
            relay.put(number)
            relay.check(self)
        self.assertEqual(relay.relay.ask(f"test {relay.plan}"), ["0"])
        relay.relay.ask(f"stop {relay.plan}")
        self.assertEqual(relay.relay.ask(f"wait {relay.plan} -2"), ["0"])
        self.assertEqual(relay.rounds(), 6)
        self.assertEqual((plans()[0]["starts"], plans()[0]["rounds"]), (1, 6))


if __name__ == "__main__":
    harness.main()
