#!/usr/bin/env python3
"""tca-hostd and the offload processors that it serves, on the device in software."""

import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import unittest

import harness

REQUEST_BYTES, REPLY_BYTES = 320, 416


class Hostd(harness.Case):
    def setUp(self):
        super().setUp()
        self.place = tempfile.mkdtemp(prefix="tca-hostd-")
        self.addCleanup(shutil.rmtree, self.place, ignore_errors=True)
        self.files = os.path.join(self.place, "files")
        os.mkdir(self.files)
        self.hostds = []
        os.environ["TCA_TIMEOUT"] = "60s"  # on a busy machine, too

    def begin(self, nodes=1, processors=64):
        """Nodes with a tca-hostd each."""
        self.nodes = self.cluster(nodes, options={"dcfa.device": "loop"})
        for node in self.nodes.nodes:
            self.start_hostd(node, processors)

    def socket_of(self, node):
        return os.path.join(self.place, f"hostd{node.number}")

    def start_hostd(self, node, processors=64):
        hostd = subprocess.Popen([harness.program("tca-hostd"), "-s", self.socket_of(node), "-d", self.files, "-p", str(processors)],
                                 env={**os.environ, "TCA_SOCKET": node.socket}, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.hostds.append(hostd)
        self.addCleanup(self.end_hostd, hostd)
        harness.until(lambda: self.answers(node) or hostd.poll() is not None, "tca-hostd listens")
        self.assertIsNone(hostd.poll())
        return hostd

    def answers(self, node):
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as probe:
            return probe.connect_ex(self.socket_of(node)) == 0

    def end_hostd(self, hostd):
        if hostd.poll() is None:
            hostd.terminate()
        _, errors = hostd.communicate(timeout=harness.DEADLINE_S)
        self.assertIn(hostd.returncode, (0, -signal.SIGKILL), errors)
        self.assertEqual(errors, "")  # its processes print nothing, such as a sanitizer's report

    def processors(self, places, *command, name="job"):
        """A group of offload processors, one per entry of places (its node)."""
        return [subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={
            **os.environ, "TCA_SOCKET": self.nodes[place].socket, "TCA_HOSTD": self.socket_of(self.nodes[place]), "TCA_GROUP": name,
            "TCA_RANK": str(rank), "TCA_SIZE": str(len(places)), "TCA_TEST_ALONE": f"{name}-{rank}"})
            for rank, place in enumerate(places)]

    def finish(self, processes, dies=None):
        ends = [process.communicate(timeout=harness.DEADLINE_S) for process in processes]
        for rank, (process, (_, errors)) in enumerate(zip(processes, ends)):
            self.assertEqual(process.returncode, -signal.SIGKILL if rank == dies else 0, f"rank {rank}: {errors}")
        return ends

    def group(self, name="reductions", places=(0, 0, 0), dies=None):
        return self.finish(self.processors(places, harness.program("delegated"), name), dies)

    def all_released(self):
        for node in self.nodes.nodes:
            harness.until(lambda node=node: node.tcactl("users")["users"] == [], "everything is released")


class Work(Hostd):
    def test_reductions(self):
        """Within a node, and between two."""
        self.begin(2)
        self.group()
        self.group(places=(0, 1, 0, 1))
        self.all_released()

    def test_files(self):
        self.begin()
        os.mkdir(os.path.join(self.files, "below"))
        with open(os.path.join(self.files, "below/in"), "w", encoding="ascii") as file:
            file.write("input")
        with open(os.path.join(self.place, "outside"), "w", encoding="ascii") as file:
            file.write("secret")
        os.symlink("../outside", os.path.join(self.files, "link"))
        os.mkfifo(os.path.join(self.files, "pipe"))
        self.group("files", (0,))

    def test_pi(self):
        """The example, twice at once: the two groups stay separate."""
        self.begin()
        with open(os.path.join(self.files, "dcfa_pi.in"), "w", encoding="ascii") as file:
            file.write("100000\n")
        groups = [self.processors((0,) * size, harness.program("dcfa_pi"), name=f"pi{size}") for size in (1, 3)]
        for group in groups:
            ends = self.finish(group)
            self.assertIn("pi = 3.14159265359", ends[0][0])
            self.assertIn(f"by {len(group)} offload processors on loop", ends[0][0])
        with open(os.path.join(self.files, "dcfa_pi.out"), encoding="ascii") as file:
            self.assertTrue(file.read().startswith("3.14159265359"))

    def test_one_at_a_time(self):
        """With room for one processor, the others wait."""
        self.begin(processors=1)
        groups = [self.processors((0,), harness.program("delegated"), "reductions", name=f"g{i}") for i in range(3)]
        for group in groups:
            self.finish(group)


class Deaths(Hostd):
    def test_processor(self):
        """The others get an error, and the next group works."""
        self.begin()
        self.group("death", dies=1)
        self.group()
        self.all_released()

    def test_hostd(self):
        """Its processors get an error; the next tca-hostd replaces its socket."""
        self.begin()
        processors = self.processors((0, 0), harness.program("delegated"), "abandoned")
        harness.until(lambda: set(os.listdir(self.files)) == {"ready0", "ready1"}, "the processors are at work")
        self.hostds[0].kill()
        self.finish(processors)
        self.start_hostd(self.nodes[0])
        self.group()
        self.all_released()

    def test_socket_in_use(self):
        self.begin()
        second = subprocess.run([harness.program("tca-hostd"), "-s", self.socket_of(self.nodes[0])], stderr=subprocess.PIPE, text=True,
                                timeout=harness.DEADLINE_S, check=False)
        self.assertEqual(second.returncode, 1)
        self.assertIn("Address already in use", second.stderr)
        self.group()


class Hostile(Hostd):
    def connect(self):
        channel = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.addCleanup(channel.close)
        channel.settimeout(harness.DEADLINE_S)
        channel.connect(self.socket_of(self.nodes[0]))
        return channel

    @staticmethod
    def request(what, **values):
        numbers = {"magic": 0x54534f48, "version": 1, "in": 0, "out": 0, "count": 0, "offset": 0, "type": 0, "combine": 0, "rank": 0,
                   "size": 1, "timeout": 0, **values}
        widths = {"magic": 4, "version": 2, "in": 8, "out": 8, "count": 8, "offset": 8, "type": 4, "combine": 4, "rank": 4, "size": 4,
                  "timeout": 8}
        data = b""
        for key, width in widths.items():
            data += (numbers[key] & (1 << 8 * width) - 1).to_bytes(width, "little")
            if key == "version":
                data += what.to_bytes(2, "little")
        return data + numbers.get("name", b"").ljust(256, b"\0")

    @staticmethod
    def reply(channel):
        """Result and text; None: the connection has ended."""
        try:
            data = channel.recv(4096)
        except ConnectionResetError:
            return None
        if not data:
            return None
        assert len(data) == REPLY_BYTES
        return int.from_bytes(data[8:16], "little", signed=True), data[16:].split(b"\0")[0].decode()

    @staticmethod
    def memory(seals=True, size=1 << 16):
        fd = os.memfd_create("memory", os.MFD_ALLOW_SEALING)
        os.ftruncate(fd, size)
        if seals:
            harness.fcntl.fcntl(fd, 1033, 2)  # F_ADD_SEALS, F_SEAL_SHRINK
        return fd

    def opened(self):
        channel, fd = self.connect(), self.memory()
        socket.send_fds(channel, [self.request(0)], [fd])
        os.close(fd)
        self.assertEqual(self.reply(channel), (0, ""))
        return channel

    def refused(self, channel, text):
        result, why = self.reply(channel)
        self.assertEqual(result, -71, why)  # EPROTO
        self.assertIn(text, why)
        self.assertIsNone(self.reply(channel))

    def test_first_requests(self):
        """Each is refused, and its connection ends."""
        self.begin()
        for data, text in ((b"x", "1 bytes"), (self.request(0)[:-1], "319 bytes"), (self.request(0, magic=1), "version"),
                           (self.request(0, version=2), "version"), (self.request(7), "version"), (self.request(65535), "version"),
                           (self.request(0, name=b"x" * 256), "version"), (self.request(0), "passes its memory"),
                           (self.request(1, name=b"file"), "without memory"), (self.request(5), "without memory")):
            channel = self.connect()
            channel.send(data)
            self.refused(channel, text)
        for fd in (self.memory(seals=False), self.memory(size=0), os.open("/dev/zero", os.O_RDWR), os.pipe()[0]):
            channel = self.connect()
            socket.send_fds(channel, [self.request(0)], [fd])
            os.close(fd)
            self.refused(channel, "not of an offload processor's memory")
        channel, fds = self.connect(), [self.memory() for _ in range(20)]
        socket.send_fds(channel, [self.request(0)], fds)
        for fd in fds:
            os.close(fd)
        self.refused(channel, "passes its memory")
        self.group()

    def test_later_requests(self):
        self.begin()
        large = 1 << 63
        for data, text in ((self.request(0), "opens once"), (self.request(1, name=b"f", out=1 << 16, count=1), "outside"),
                           (self.request(1, name=b"f", out=large, count=large), "outside"), (self.request(2, name=b"f", count=large), "outside"),
                           (self.request(3, count=4097), "outside"), (self.request(3, count=8, out=(1 << 16) - 7), "outside"),
                           (self.request(4, count=0, type=15, combine=1), "0 elements"),
                           (self.request(5, count=large, type=15, combine=1), "elements"),
                           (self.request(5, count=1, type=99, combine=1), "type 99"), (self.request(5, count=1, type=15, combine=99), "99"),
                           (self.request(5, count=1, type=15), "combination 0"),
                           (self.request(5, count=8193, type=15, combine=1), "outside")):
            channel = self.opened()
            channel.send(data)
            self.refused(channel, text)
        self.group()

    def test_nonsense(self):
        """Random requests of the right form, many without awaiting a reply, beside a correct group."""
        self.begin()
        honest = self.processors((0, 0, 0), harness.program("delegated"), "reductions")
        numbers = random.Random(7)
        for _ in range(20):
            channel = self.opened()
            for _ in range(8):
                values = {key: numbers.choice((0, 1, 8, 4096, 1 << 16, numbers.getrandbits(64)))
                          for key in ("in", "out", "count", "offset", "type", "combine", "rank", "size")}
                try:
                    channel.send(self.request(numbers.randrange(8), name=numbers.choice((b"", b"f", b"../f", b"/")), **values))
                except OSError:
                    break
            channel.close()
        self.finish(honest)
        self.group()
        self.all_released()

    @unittest.skipIf(os.geteuid() != 0, "needs another user")
    def test_other_user(self):
        """Another user who can reach the socket is refused, and cannot impersonate tca-hostd."""
        self.begin()
        path = self.socket_of(self.nodes[0])
        for place, mode in ((self.place, 0o755), (path, 0o777)):
            os.chmod(place, mode)
        code = "import socket, sys; s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET); s.connect(sys.argv[1]); sys.exit(len(s.recv(1)))"
        subprocess.run(["python3", "-c", code, path], user=65534, group=65534, extra_groups=[], check=True, timeout=harness.DEADLINE_S)
        os.chown(path, 65534, 65534)
        self.group()  # what counts is the process, not the file


if __name__ == "__main__":
    harness.main()
