"""Real daemons and real clients for the integration tests.

A Case makes Clusters of tcad processes, each in a directory of its own, and Actors (actor/actor.h), client programs that
execute commands. The next test of the class gets the same cluster again if it asks for one like it, unless a daemon was killed,
stopped or cut off meanwhile; other clusters are ended with the test, also with a failed one; then the logs of the daemons are shown.
Daemons that a test did not kill must exit with 0 when asked to end: sanitizers report leaks there.

Nothing here asserts how fast anything is: deadlines only end tests that hang.
"""

import contextlib
import ctypes
import fcntl
import itertools
import json
import os
import re
import resource
import secrets
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import unittest

from actors import Actor, Failed, Stream  # noqa: F401 (the tests have them from here)
from processes import DEADLINE_S, SLOW, die_with_us, program, rounds, run, stacks, stop, until  # noqa: F401

# What libpciaccess keeps for hwloc, which unloads it, looks like a leak of this project.
os.environ["HWLOC_COMPONENTS"] = "-pci"

# This process's own loopback address: no other test, and no outgoing connection, takes its ports.
ADDRESS = f"127.{1 + (os.getpid() >> 16 & 0x7f)}.{os.getpid() >> 8 & 0xff}.{os.getpid() & 0xff}"
PORTS = itertools.count(12000)


def raise_descriptor_limit():
    """Some tests hold thousands of sockets; child processes inherit the limit."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def own_network():
    """Moves the test and its child processes into a network of its own, where no other process reaches its daemons. Without
    permission for that, uses an address of its own in the machine's network. Returns whether it has its own network."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(0x40000000) != 0:  # CLONE_NEWNET
        print("no network of our own:", os.strerror(ctypes.get_errno()), file=sys.stderr)
        return False
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, 0x8914, struct.pack("16sh22x", b"lo", 1))  # SIOCSIFFLAGS: IFF_UP
    return True


def costs(measured):
    """A calibration file. Of each "rail seat": the latency, the time for a byte of more than 64, and for each further board, in ns."""
    lines = ["tcad-cost 10"]
    for where, (latency_ns, byte_ns, *hop_ns) in measured.items():
        lines += [f"{where} hop_ns = {sum(hop_ns)}", f"{where} block_ns = 0", f"{where} put_64_ns = {latency_ns}"]
        lines += [f"{where} put_{size}_ns = {latency_ns + (256 << 2 * i) * byte_ns}"
                  for i, size in enumerate(("256", "1K", "4K", "16K", "64K", "256K", "1M", "4M"))]
    return "\n".join(lines) + "\n"


class Node:
    """One tcad."""

    def __init__(self, cluster, number, options):
        self.cluster, self.number, self.options = cluster, number, options
        self.directory = os.path.join(cluster.directory, f"node{number}")
        self.socket = os.path.join(self.directory, "tcad.sock")
        self.log = os.path.join(self.directory, "tcad.log")
        self.process = None
        self.log_start = 0
        os.mkdir(self.directory, 0o700)
        self.configure()
        self.disturbed = False  # something was done to it that a later test might notice

    def configure(self):
        self.disturbed = True
        sections = {
            "node": {"id": self.number, "name": f"node{self.number}", "cluster_file": self.cluster.file,
                     "runtime_dir": self.directory, "state_dir": self.directory + "/state"},
            # A process that waits some seconds for a processor must not count as dead, unless that is what the test checks.
            "control": {"security": "tls", "key_file": self.cluster.key, "heartbeat_timeout": "60s", "request_timeout": "30s"},
            "rails": {"enable": "shm tcp", "calibration": "off", "ofi_unprotected": "yes"},
            "log": {"target": "stderr", "level": "info"},
        }
        for key, value in self.options.items():
            section, name = key.split(".")
            sections.setdefault(section, {})[name] = value
        with open(os.path.join(self.directory, "tcad.conf"), "w", encoding="ascii") as conf:
            for section, values in sections.items():
                conf.write(f"[{section}]\n")
                conf.writelines(f"{name} = {value}\n" for name, value in values.items())

    # ---- life

    @staticmethod
    def popen(words, descriptors=None, **options):
        """Starts a program on this node, which ends with the test. descriptors: how many it may have."""
        def begin():
            die_with_us()
            if descriptors:
                resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors))

        return subprocess.Popen(words, preexec_fn=begin, **options)

    def command(self):
        return [program("tcad"), "-c", os.path.join(self.directory, "tcad.conf")]

    def start(self, descriptors=None, uid=None):
        """uid: as another user, for tests that run as root."""
        user = {} if uid is None else {"user": uid, "group": uid, "extra_groups": []}
        if uid is not None:
            for path in (self.cluster.key, self.directory, *(os.path.join(self.directory, name) for name in os.listdir(self.directory))):
                os.chown(path, uid, uid)
        self.disturbed |= os.path.exists(self.log)
        with open(self.log, "ab") as log:
            self.process = self.popen(self.command(), descriptors, stdin=subprocess.DEVNULL, stdout=log, stderr=log, **user)

    def answers(self):
        if self.process.poll() is not None:
            raise RuntimeError(f"tcad of node{self.number} ended at its start:\n{self.log_text()}")
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as probe:
            try:
                probe.connect(self.socket)
            except OSError:
                return False
        return True

    def wait_ready(self):
        until(self.answers, f"node{self.number} answers")

    def kill(self):
        self.disturbed = True
        self.process.kill()
        self.process.wait()
        self.process = None

    def restart(self):
        """Restarts it, after killing it if it runs."""
        self.disturbed = True
        if self.process:
            self.kill()
        self.start()
        self.wait_ready()

    def pause(self):
        self.disturbed = True
        stop(self.process.pid)

    def resume(self):
        self.process.send_signal(signal.SIGCONT)

    def ask_to_end(self):
        self.disturbed = True
        if self.process and self.process.poll() is None:
            self.resume()
            self.process.terminate()

    def end(self):
        """Asks it to end. Returns what was wrong, or None."""
        self.ask_to_end()
        return self.ended()

    def ended(self):
        if not self.process:
            return None
        try:
            code = self.process.wait(DEADLINE_S)
        except subprocess.TimeoutExpired:
            print(stacks(self.process), file=sys.stderr)
            self.kill()
            return f"node{self.number} did not end when asked to"
        self.process = None
        return None if code == 0 else f"tcad of node{self.number} ended with {code}"

    # ---- looking at it

    def log_text(self):
        """What it has logged in this test."""
        try:
            with open(self.log, encoding="utf-8", errors="replace") as log:
                log.seek(self.log_start)
                return log.read()
        except FileNotFoundError:
            return ""

    def tcactl_raw(self, *arguments):
        self.disturbed |= bool({"calibrate", "drain", "reload"} & set(arguments))
        # tools/test-tcactl looks for leaks. Here tcactl runs thousands of times, too often for LeakSanitizer, which stops the
        # process with a tracer when it ends, and may hang in that.
        sanitizer = os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"
        return run([program("tcactl"), *arguments], self.process,
                   env={**os.environ, "TCA_SOCKET": self.socket, "ASAN_OPTIONS": sanitizer.lstrip(":")})

    def tcactl(self, *arguments):
        """The document that tcactl --json prints."""
        result = self.tcactl_raw("--json", *arguments)
        if result.returncode not in (0, 5):  # 5: degraded
            raise AssertionError(f"tcactl {arguments} ended with {result.returncode}: {result.stderr}")
        return json.loads(result.stdout)

    def sessions(self):
        return self.tcactl("sessions")["sessions"]

    def regions(self):
        return self.tcactl("regions")["regions"]

    def plans(self):
        return self.tcactl("plans")["plans"]

    def counts(self):
        """Sessions, regions, plans."""
        status = self.tcactl("status")
        return status["sessions"], status["regions"]["count"], status["plans"]

    def state_of(self, other):
        """The state of another node as this node sees it."""
        return next(node["state"] for node in self.tcactl("nodes")["nodes"] if node["id"] == other.number)

    def ping(self, other):
        return self.tcactl_raw("ping", f"node{other.number}").returncode == 0

    def metric(self, name):
        """The value of a metric without labels."""
        family, = (family for family in self.tcactl("stats")["families"] if family["name"] == name)
        return int(family["samples"][0]["value"])

    def fds(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def memory_kib(self):
        """Its resident memory, private and of the segments that it maps."""
        with open(f"/proc/{self.process.pid}/smaps_rollup", encoding="ascii") as rollup:
            return int(re.search(r"^Rss:\s+(\d+) kB", rollup.read(), re.MULTILINE).group(1))


class Cluster:
    """Nodes 0 to n - 1, with TLS between them. options: "section.key" -> value, for all of them."""

    make_node = Node

    def __init__(self, nodes=1, subclusters=1, options=None):
        self.directory = tempfile.mkdtemp(prefix="tca-test-")
        self.file = os.path.join(self.directory, "cluster.conf")
        self.key = os.path.join(self.directory, "cluster.key")
        self.nodes, self.actors = [], []
        with open(os.open(self.key, os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="ascii") as key:
            key.write(secrets.token_hex(32) + "\n")
        with open(self.file, "w", encoding="ascii") as file:
            file.write("cluster = test\n")
            for number in range(nodes):
                subcluster = number * subclusters // nodes
                file.write(f"node{number} id={number} address={self.address(number)} subcluster=s{subcluster}\n")
        for number in range(nodes):
            self.nodes.append(self.make_node(self, number, options or {}))

    @staticmethod
    def address(_number):
        return f"{ADDRESS}:{next(PORTS)}"

    def up(self):
        for node in self.nodes:
            node.start()
        for node in self.nodes:
            node.wait_ready()
        return self

    def __getitem__(self, number):
        return self.nodes[number]

    def actor(self, node=0, uid=None, within=None, **environment):
        actor = Actor(self.nodes[node], environment, uid=uid, within=within)
        self.actors.append(actor)
        return actor

    def group(self, places, name="job", uid=None, **environment):
        """A group of actors, one per entry of places (its node), by rank."""
        actors = [self.actor(node, uid, **environment) for node in places]
        for rank, actor in enumerate(actors):
            actor.tell(f"open {name} {rank} {len(actors)} -2")
        for actor in actors:
            actor.answer()
        return actors

    def kill_actors(self, actors):
        for actor in actors:
            actor.process.kill()  # all of them, before waiting for the first
        for actor in actors:
            actor.kill()

    def end_actors(self):
        """A list of errors."""
        actors, self.actors = self.actors, []
        return [complaint for actor in actors if (complaint := actor.end())]

    def down(self):
        """A list of errors."""
        wrong = self.end_actors()
        for node in self.nodes:
            node.ask_to_end()
        return wrong + [complaint for node in self.nodes if (complaint := node.ended())]

    def disturbed(self):
        return any(node.disturbed or not node.process or node.process.poll() is not None for node in self.nodes)

    def until_empty(self):
        """The clients have gone, and the daemons have noticed."""
        for node in self.nodes:
            until(lambda node=node: node.counts() == (0, 0, 0), f"node{node.number} has no sessions, regions and plans any more")

    def begin_logs(self):
        for node in self.nodes:
            node.log_start = os.path.getsize(node.log)

    def admit_users(self):
        """Lets processes of other users reach the sockets."""
        for directory in (self.directory, *(node.directory for node in self.nodes)):
            os.chmod(directory, 0o755)

    def remove(self):
        shutil.rmtree(self.directory, ignore_errors=True)


def show_logs(where, logs):
    for number, text in logs:
        lines = text.splitlines()
        print(f"---- log of node{number} in {where} ({len(lines)} lines, the last 100)", *lines[-100:], sep="\n", file=sys.stderr)


class Case(unittest.TestCase):
    """A test with clusters."""

    RAILS = "shm tcp"  # of clusters that name none
    IDLE_MOST = 3  # clusters

    has_own_network = False
    within = None  # ExitStack of the subTest that runs

    @classmethod
    def setUpClass(cls):
        cls.idle = {}

    @classmethod
    def tearDownClass(cls):
        cls.end_idle()

    @classmethod
    def end_idle(cls):
        wrong = []
        for cluster in cls.idle.values():
            if complaints := cluster.down():
                wrong += complaints
                show_logs(f"a cluster of {cls.__name__}", [(node.number, node.log_text()) for node in cluster.nodes])
            cluster.remove()
        cls.idle = {}
        if wrong:
            raise AssertionError("; ".join(wrong))

    def setUp(self):
        self.logs = []

    def cluster(self, nodes=1, kind=Cluster, fresh=False, **arguments):
        """A cluster without sessions, its log empty. fresh: for tests of what an earlier test may have left, as metrics."""
        arguments["options"] = {"rails.enable": self.RAILS, **(arguments.get("options") or {})}
        key = repr((kind, nodes, arguments))
        cluster = None if fresh else self.idle.pop(key, None)
        if cluster:
            cluster.begin_logs()
            self.addCleanup(self.give_back, key, cluster)
            return cluster
        cluster = kind(nodes, **arguments)
        self.addCleanup(*((self.take_down, cluster) if fresh else (self.give_back, key, cluster)))
        return cluster.up()

    def give_back(self, key, cluster):
        """For the next test, if it finds it as if new."""
        if cluster.disturbed() or key in self.idle or len(self.idle) == self.IDLE_MOST:
            self.take_down(cluster)
            return
        self.logs += [(node.number, node.log_text()) for node in cluster.nodes]
        wrong = cluster.end_actors()
        try:
            cluster.until_empty()
        except AssertionError as error:
            wrong.append(str(error))
        if wrong:
            self.take_down(cluster)
            self.fail("; ".join(wrong))
        self.idle[key] = cluster

    def take_down(self, cluster):
        wrong = cluster.down()
        self.logs += [(node.number, node.log_text()) for node in cluster.nodes]
        cluster.remove()
        if wrong:
            self.fail("; ".join(wrong))

    def addCleanup(self, function, /, *arguments, **named):
        if self.within:
            self.within.callback(function, *arguments, **named)
        else:
            super().addCleanup(function, *arguments, **named)

    @contextlib.contextmanager
    def subTest(self, *arguments, **named):
        """As unittest's, with its own clean-ups: its clusters are free when it ends."""
        with super().subTest(*arguments, **named), contextlib.ExitStack() as own:
            outer, self.within = self.within, own
            try:
                yield
            finally:
                self.within = outer

    def run(self, result=None):
        before = len(result.failures) + len(result.errors) if result else 0
        super().run(result)
        if result and len(result.failures) + len(result.errors) > before:
            show_logs(self.id(), self.logs)
            self.end_idle()

    def refused(self, name, *texts):
        """with self.refused("-ESTALE", "region"): the body must fail with this error, and with a message that contains all
        texts."""
        return Refusal(self, name, texts)


class Refusal:
    def __init__(self, case, name, texts):
        self.case, self.name, self.texts, self.text = case, name, texts, None

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        if kind is None:
            self.case.fail(f"nothing failed; {self.name} was expected")
        if kind is not Failed:
            return False
        self.case.assertEqual(error.name, self.name, error.text)
        for text in self.texts:
            self.case.assertIn(text, error.text)
        self.text = error.text
        return True


def main():
    raise_descriptor_limit()
    Case.has_own_network = os.geteuid() == 0 and own_network()
    unittest.main(verbosity=2)
