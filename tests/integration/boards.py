"""Clusters whose nodes have PEACH2 boards, cabled as a ring; tests pull cables and kill boards."""

import os
import signal
import subprocess

import harness
from harness import until

RAILS = {"rails.enable": "shm peach2 ofi", "rails.peach2_rings": "1"}

COSTS, DEAR_BOARDS = (harness.costs({"shm client": (1, 1), "peach2:0 daemon": (board_ns, 1, 3000), "ofi:net:lo daemon": (9000, 1),
                                     "ofi:tcp:lo daemon": (9000, 1)}) for board_ns in (4000, 400000))


class Ring(harness.Cluster):
    """A cluster with a board for each node, E of each connected to W of the next."""

    def __init__(self, nodes, options):
        super().__init__(nodes, options={**RAILS, "control.heartbeat_timeout": "600s", **options})
        self.boards = [None] * nodes

    def path(self, number):
        return os.path.join(self.nodes[number].directory, "peach2.sock")

    def start_board(self, number):
        cable = f"E={self.path((number + 1) % len(self.nodes))}:W"
        self.boards[number] = subprocess.Popen([harness.program("tca-peach2"), "--node", str(number), "--socket", self.path(number),
                                                "--cable", cable], preexec_fn=harness.die_with_us)

    def kill_board(self, number):
        self.boards[number].kill()
        self.boards[number].wait()

    def hand(self, what, number, *ports):
        for port in ports:
            subprocess.run([harness.program("tca-peach2"), "--socket", self.path(number), f"--{what}", port], check=True)

    def up(self):
        for number in range(len(self.nodes)):
            self.start_board(number)
        until(lambda: all(os.path.exists(self.path(number)) for number in range(len(self.nodes))), "the boards are there")
        super().up()
        for node in self.nodes:
            self.wait_cables(node, {})
        return self

    def down(self):
        wrong = super().down()
        for number, board in enumerate(self.boards):
            if board.poll() is None:
                board.send_signal(signal.SIGCONT)
                board.terminate()
            if board.wait(harness.DEADLINE_S) not in (0, -signal.SIGKILL):
                wrong.append(f"the board of node{number} ended with {board.returncode}")
        return wrong

    # ---- what a node sees

    @staticmethod
    def fabric(node):
        fabric, = node.tcactl("topology")["fabrics"]
        assert fabric["rail"] == "peach2:0", fabric
        return fabric

    def out(self, node):
        """Unplugged cables, as (node, port) of their E ends."""
        return {(cable["from"], cable["from_port"]) for cable in self.fabric(node)["cables"] if cable["state"] == "out"}

    def wait_cables(self, node, out):
        until(lambda: self.out(node) == set(out), f"node{node.number} sees {out} out")

    def cut_off(self, node):
        return {board["node"] for board in self.fabric(node)["boards"] if board["state"] == "cut off"}

    def wait_cut_off(self, node, boards):
        until(lambda: self.cut_off(node) == set(boards), f"node{node.number} sees {boards} cut off")


class Boards(harness.Case):
    def ring(self, nodes, **options):
        cluster = Ring(nodes, {key.replace("__", "."): value for key, value in options.items()})
        self.addCleanup(self.take_down, cluster)
        return cluster.up()

    def plan(self, sender, receiver, rank, rail="any", shape="4096", slot=0, **wishes):
        plan, source, target = sender.put_plan(receiver, shape, f"notify {rank} {slot}", region_bytes=1 << 23, rail=rail, **wishes)
        sender.ask(f"fill {source} 0 {shape} 7")
        return plan, target

    def start(self, sender, plan):
        sender.run(plan, -1)
        return sender.receipt(plan)

    def arrived(self, receiver, rank, target, shape="4096", slot=0):
        receiver.ask(f"notified_wait {rank} {slot} -1")
        receiver.ask(f"check {target} 0 {shape} 7")
        receiver.ask(f"set {target} 0 {1 << 20} 0")
