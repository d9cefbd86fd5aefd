#!/usr/bin/env python3
"""The receiver of puts is killed: over every rail the sender learns that a process has ended, also where the rail's message, which
knows only that the memory is gone, comes before tcad's. Memory that a living process frees stays a stale handle."""

import select
import time

import harness
from boards import Boards
from connections import control_ports, stalled
from harness import until

ROUNDS = 2
SIZES = (64, 65536, 8 << 20)


class OwnerEnds(harness.Case):
    def pair(self, rail):
        return self.cluster(2, options={"rails.enable": f"shm {rail}", "rails.tcp_security": "plain"})

    def put(self, sender, receiver, size, steps=("notify 1 0",), **wishes):
        """Starts again and again. Returns the target."""
        plan, _, target = sender.put_plan(receiver, size, *steps, **wishes)
        sender.tell(f"repeat {plan} 0")
        return target

    def of_rail(self, cluster, **wishes):
        late = control_ports(cluster.nodes)
        for turn in range(harness.rounds(ROUNDS)):
            for number, size in enumerate(SIZES):
                with self.subTest(turn=turn, size=size, **wishes):
                    actors = sender, receiver = cluster.group([0, 1], name=f"job{turn}.{number}")
                    self.put(sender, receiver, size, **wishes)
                    receiver.tell("notified_wait 0 5 -1")  # it looks
                    time.sleep(0.02)
                    with stalled(cluster[0], ports=late):
                        receiver.kill()
                        until(lambda: not cluster[1].sessions(), "its daemon has ended its session")
                        self.assertEqual(select.select([sender.process.stdout], [], [], 0.3)[0], [], "the sender knows why before tcad")
                    with self.refused("-EOWNERDEAD"):
                        sender.answer()
                    cluster.kill_actors(actors)

    def test_tcp(self):
        self.of_rail(self.pair("tcp"), rail="tcp", seat="daemon")

    def test_client_seat(self):
        self.of_rail(self.pair("tcp"), rail="tcp", seat="client")

    def test_ofi(self):
        self.of_rail(self.pair("ofi"), rail="ofi", seat="daemon")

    def test_another_group(self):
        """The sender's node hears nothing of the receiver's group, only that the memory is gone, and why."""
        for rail, seat in (("tcp", "daemon"), ("tcp", "client"), ("ofi", "daemon")):
            cluster = self.pair(rail)
            for ends, error in (("killed", "-EOWNERDEAD"), ("closes", "-EOWNERDEAD"), ("frees", "-ESTALE"), ("tcad ends", "-EHOSTDOWN")):
                with self.subTest(rail=rail, seat=seat, ends=ends):
                    sender, receiver = (cluster.actor(node) for node in range(2))
                    for actor in (sender, receiver):
                        actor.ask("open - 0 1 -2")
                    target = self.put(sender, receiver, 65536, steps=(), rail=rail, seat=seat)
                    with self.refused("-ETIMEDOUT"):
                        receiver.ask("notified_wait 0 5 50")  # it looks
                    if ends == "killed":
                        receiver.kill()
                    elif ends == "tcad ends":
                        cluster[1].end()
                    else:
                        receiver.ask("close" if ends == "closes" else f"free {target}")
                    if ends == "frees":
                        receiver.tell("notified_wait 0 5 -1")  # it looks
                    with self.refused(error):
                        sender.answer()
                    cluster.kill_actors([sender, receiver])


class OverBoards(Boards, OwnerEnds):
    test_tcp = test_client_seat = test_ofi = test_another_group = None

    def test_peach2(self):
        self.of_rail(self.ring(2), rail="peach2", seat="daemon")


if __name__ == "__main__":
    harness.main()
