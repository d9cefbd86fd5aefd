"""Nodes of a cluster that are virtual machines (tests/vm/two-guests), with what harness.py has for nodes on this machine."""

import contextlib
import json
import os
import socket
import subprocess

import harness
from processes import DEADLINE_S

PLACE = os.environ["TCA_VM_PLACE"]
SERVERS = [server.split(":") for server in os.environ["TCA_VM_SERVERS"].split()]


class Input(socket.SocketIO):
    """A program's standard input."""

    def __init__(self, connection):
        super().__init__(connection, "w")
        self.connection = connection

    def close(self):
        with contextlib.suppress(OSError):  # the program has ended
            self.connection.shutdown(socket.SHUT_WR)
        super().close()


class Process:
    """A program in a guest (guest/serve), with what the tests need of subprocess.Popen."""

    def __init__(self, guest, words, environment):
        self.guest, self.args, self.returncode, self.said = guest, words, None, b""
        host, port = SERVERS[guest]
        self.connection = socket.create_connection((host, int(port)), DEADLINE_S)
        self.stdin = Input(self.connection)
        self.stdout = self.connection.makefile("rb", buffering=0)
        self.stdin.write(json.dumps([words, environment]).encode() + b"\n")
        self.pid = int(self.stdout.readline() or 0)

    def communicate(self, timeout=None):
        """What it says from now on, when it has ended."""
        self.wait(timeout)
        return self.said.decode(errors="replace"), None

    def wait(self, timeout=None):
        if self.returncode is None:
            self.connection.settimeout(timeout)
            try:
                while more := self.connection.recv(65536):
                    self.said += more
            except TimeoutError:
                raise subprocess.TimeoutExpired(self.args, timeout) from None
            self.said, _, end = self.said.rpartition(b"exit ")
            self.returncode = int(end)
            self.stdout.close()
            self.connection.close()
        return self.returncode

    def poll(self):
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0.001)
        return self.returncode

    def send_signal(self, number):
        if self.poll() is None:
            run(self.guest, ["kill", f"-{int(number)}", str(self.pid)])

    def terminate(self):
        self.send_signal(15)

    def kill(self):
        self.send_signal(9)


def run(guest, words, said="", **environment):
    """Runs a program in a guest. said: its input."""
    process = Process(guest, words, environment)
    process.stdin.write(said.encode())
    process.stdin.close()
    out, _ = process.communicate(DEADLINE_S)
    return subprocess.CompletedProcess(words, process.returncode, out, "")


def monitor(guest, command, **arguments):
    """A command to the guest's QEMU."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(os.path.join(PLACE, f"guest{guest}.monitor"))
        lines = connection.makefile("rw")
        lines.readline()  # its greeting
        for words in ({"execute": "qmp_capabilities"}, {"execute": command, "arguments": arguments}):
            lines.write(json.dumps(words) + "\n")
            lines.flush()
            while "return" not in (reply := json.loads(lines.readline())):
                assert "event" in reply, reply


@contextlib.contextmanager
def pulled(guest, *devices):
    """The cables of these network devices are out."""
    try:
        for device in devices:
            monitor(guest, "set_link", name=device, up=False)
        yield
    finally:
        for device in devices:
            monitor(guest, "set_link", name=device, up=True)


class Guest(harness.Node):
    """A node in the guest of its number, whose files have the same names there as here."""

    def popen(self, words, env=None, **_):
        return Process(self.number, words, {key: value for key, value in (env or {}).items() if key.startswith("TCA_")})

    def run(self, *words, said=""):
        return run(self.number, words, said, TCA_SOCKET=self.socket)

    def start(self):
        self.run("mkdir", "-p", self.directory)
        for path in (self.cluster.file, self.cluster.key, os.path.join(self.directory, "tcad.conf")):
            with open(path, encoding="ascii") as file:
                result = self.run("sh", "-c", f"umask 077 && cat >{path}", said=file.read())
                assert result.returncode == 0, result
        command = f"exec tcad -c {self.directory}/tcad.conf >>{self.log} 2>&1 </dev/null"
        self.process = Process(self.number, ["sh", "-c", command], {})

    def answers(self):
        return self.process.poll() is None and self.run("sh", "-c", "tcactl status 2>&1").returncode in (0, 5)

    def tcactl_raw(self, *arguments):
        return self.run("tcactl", *arguments)

    def log_text(self):
        return self.run("cat", self.log).stdout


class Guests(harness.Cluster):
    """A cluster of all guests."""

    make_node = Guest

    def __init__(self, options=None):
        super().__init__(len(SERVERS), options=options)

    @staticmethod
    def address(number):
        return f"10.8.0.{number + 1}:7080"
