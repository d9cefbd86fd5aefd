"""Client programs that execute commands (actor/actor.h)."""

import os
import re
import selectors
import subprocess
import sys
import time

from processes import DEADLINE_S, SLOW, program, rounds, stacks, until


class Failed(Exception):
    """A failure that an actor replied with: `name` as in "-ESTALE", and the library's text."""

    def __init__(self, command, name, text):
        super().__init__(f"{command!r} answered {name}: {text}")
        self.name, self.text = name, text


class Actor:
    """A client process that executes commands. uid: of another user, for tests that run as root; within: a Container."""

    def __init__(self, node, environment, name="actor", uid=None, within=None):
        self.node, self.killed, self.asked = node, False, None
        user = {} if uid is None else {"user": uid, "group": uid, "extra_groups": []}
        environment = {**os.environ, "TCA_SOCKET": node.socket, "TCA_TIMEOUT": f"{10 * SLOW:.0f}s", **environment}
        command = [*(within.enter if within else ()), program(name)]
        self.process = node.popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0, **user)
        self.buffer = b""
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.process.stdout, selectors.EVENT_READ)

    @property
    def pid(self):
        return self.process.pid

    def tell(self, command):
        """Sends a command whose reply arrives later."""
        self.asked = command
        self.process.stdin.write(command.encode() + b"\n")

    def answer(self, seconds=DEADLINE_S):
        """The words of the next reply, or Failed."""
        end = time.monotonic() + seconds
        while b"\n" not in self.buffer:
            if not self.selector.select(max(0, end - time.monotonic())):
                raise AssertionError(f"{self.asked!r} was not answered within {seconds:.0f} s by pid {self.pid}\n"
                                     f"{stacks(self.process, self.node.process)}")
            more = os.read(self.process.stdout.fileno(), 65536)
            if not more:
                raise AssertionError(f"the actor ended at {self.asked!r} with {self.process.wait()}")
            self.buffer += more
        line, self.buffer = self.buffer.split(b"\n", 1)
        kind, *words = line.decode().split(" ")
        if kind == "ok":
            return words
        raise Failed(self.asked, words[0], " ".join(words[1:]))

    def ask(self, command, seconds=DEADLINE_S):
        self.tell(command)
        return self.answer(seconds)

    def ask_all(self, *commands):
        """Sends some commands at once: on busy processors, each one that is waited for costs two turns of the scheduler. The first
        failure is raised when all have been answered."""
        self.tell("\n".join(commands))
        failures = []
        for self.asked in commands:
            try:
                self.answer()
            except Failed as failed:
                failures.append(failed)
        if failures:
            raise failures[0]

    def kill(self):
        if self.killed:
            return
        self.killed = True
        self.process.kill()
        self.process.wait()
        self.selector.close()
        self.process.stdin.close()
        self.process.stdout.close()

    def end(self):
        """Lets it close its session and end. Returns what was wrong, or None."""
        if self.killed:
            return None
        self.process.stdin.close()
        try:
            code = self.process.wait(DEADLINE_S)
        except subprocess.TimeoutExpired:
            print(stacks(self.process, self.node.process), file=sys.stderr)
            self.process.kill()
            code = self.process.wait()
        self.selector.close()
        self.process.stdout.close()
        self.killed = True
        return None if code == 0 else f"actor {self.pid} ended with {code} (after {self.asked!r})"

    def state(self):
        """The state of its session as its daemon shows it; None: no session."""
        return next((session["state"] for session in self.node.sessions() if session["pid"] == self.pid), None)

    def until_joining(self, command):
        """Makes it open a session in a group whose other members are missing, and waits until the daemon has processed that."""
        self.tell(command)
        until(lambda: self.state() == "joining", f"pid {self.pid} waits for its group")

    # ---- what is often said

    def region(self, kind, size):
        """The number and address of a new region: kind "attach" for one of the process's own memory, "alloc" for tcad's."""
        region, address, _ = self.ask(f"{kind} {size}")
        return int(region), int(address, 16)

    def attach(self, size):
        return self.region("attach", size)[0]

    def alloc(self, size):
        return self.region("alloc", size)[0]

    def handle(self, region, *part):
        return self.ask(" ".join(str(word) for word in ("handle", region, *part)))[0]

    def plan(self, *steps, name="plan", rail="any", seat="any", channel=0, timed=False, landed=False, prefer=False, repeat=False,
             timeout=-2, together=0):
        """Makes and commits a plan. Its steps are commands without the plan's number, as in "notify 1 0"."""
        flag = " timed" if timed else " landed" if landed else " prefer" if prefer else " repeat" if repeat else " -"
        number = int(self.ask(f"plan {name} {rail} {seat} {channel}{flag} {together}")[0])
        try:
            for step in steps:
                verb, *words = step.split(" ")
                self.ask(" ".join([verb, str(number), *words]))
            self.ask(f"commit {number} {timeout}")
        except Failed:
            self.ask(f"freeplan {number}")
            raise
        return number

    def put_plan(self, receiver, shape, *steps, target_shape=None, region_bytes=None, attached=(False, False), **wishes):
        """A plan that puts from a new region of this process to one of the receiver, both of region_bytes (the shape's, if that is
        a number), and its further steps. Returns plan, source and target."""
        source, target = (actor.region("attach" if own else "alloc", region_bytes or shape)[0]
                          for actor, own in zip((self, receiver), attached))
        put = f"put {source} 0 {shape} {receiver.handle(target)} 0 {target_shape or shape}"
        return self.plan(put, *steps, **wishes), source, target

    def run(self, plan, timeout=-2):
        """Starts a plan and waits for its completion."""
        self.ask(f"start {plan}")
        self.ask(f"wait {plan} {timeout}")

    def receipt(self, plan):
        words = (word.split("=", 1) for word in self.ask(f"receipt {plan}"))
        return {key: int(value) if re.fullmatch(r"-?\d+", value) else value for key, value in words}


class Container:
    """PID and mount namespaces for actors, with /proc of their own. For root."""

    def __init__(self, node):
        self.process = node.popen(["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "sleep", "infinity"])
        children = f"/proc/{self.process.pid}/task/{self.process.pid}/children"
        until(lambda: os.readlink(f"/proc/{self.init(children)}/exe").endswith("sleep"), "the container is there")
        self.enter = ["nsenter", "--target", self.init(children), "--pid", "--mount"]

    @staticmethod
    def init(children):
        with open(children, encoding="ascii") as pids:
            return pids.read().strip() or "self"

    def end(self):
        self.process.kill()
        self.process.wait()


class Stream:
    """A plan from one actor to another, and the acknowledgement back, ready for checked transfers (actor/transfer.c)."""

    def __init__(self, sender, receiver, ranks=(0, 1), rail="any", seat="any", shape="4096", target_shape=None,
                 region_bytes=1 << 20, slot=0, channel=0, ack_seat="any", ack_rail="any", attached=(False, False),
                 name="stream"):
        self.sender, self.receiver, self.ranks, self.slot = sender, receiver, ranks, slot
        self.shape, self.target_shape = shape, target_shape or shape
        self.plan, self.source, self.target = sender.put_plan(
            receiver, shape, f"notify {ranks[1]} {slot}", target_shape=target_shape, region_bytes=region_bytes, attached=attached,
            name=name, rail=rail, seat=seat, channel=channel)
        self.ack = receiver.plan(f"notify {ranks[0]} {slot}", name="ack", seat=ack_seat, rail=ack_rail)
        self.count = None

    def written_gaps(self, count):
        """Which bytes between and behind 16 blocks of 16 bytes, 40 apart, were changed by this many transfers."""
        self.receiver.ask(f"set {self.target} 0 4096 0xee")
        assert self.run(count) == count
        data = bytes.fromhex(self.receiver.ask(f"read {self.target} 0 4096")[0])
        return [at for at, value in enumerate(data) if (at >= 16 * 40 or at % 40 >= 16) and value != 0xee]

    def begin(self, count=0, bystander=False):
        """count 0: until finish(). bystander: it rests between transfers (not with TCA_TEST_ROUNDS), to leave the processors to others."""
        self.count = count
        pause_ms = int(bystander and rounds(10) <= 10)
        self.receiver.tell(f"receive {self.target} 0 {self.target_shape} {self.ranks[0]} {self.slot} {self.ack} {count}")
        self.sender.tell(f"send {self.plan} {self.source} 0 {self.shape} {self.ranks[1]} {self.slot} {count} {pause_ms}")

    def finish(self):
        """How many transfers have completed, all of them correct."""
        if self.count == 0:
            self.sender.process.stdin.write(b"\n")
        try:
            sent = int(self.sender.answer()[0])
        except Failed as failed:
            failed.args = (f"{failed}; the receiver: {self.receiver_word()}",)
            raise
        if self.count == 0:
            self.receiver.process.stdin.write(b"\n")
        received = int(self.receiver.answer()[0])
        if sent != received:
            raise AssertionError(f"{sent} transfers were acknowledged, {received} received")
        return sent

    def receiver_word(self):
        try:
            return " ".join(self.receiver.answer())
        except Failed as failed:
            return str(failed)

    def run(self, count):
        self.begin(count)
        return self.finish()
