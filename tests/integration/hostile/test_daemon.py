#!/usr/bin/env python3
"""Broken environments: configurations, sockets, directories, full disks. The daemon reports what is wrong and the remedy."""

import contextlib
import fcntl
import os
import shutil
import socket
import struct
import subprocess
import tempfile
import unittest

from hostile import HostileCase, until
import wire
from harness import DEADLINE_S, SLOW, die_with_us, main, program

MIB = 1 << 20


class Start(HostileCase):
    """Daemons that cannot start."""

    def setUp(self):
        super().setUp()
        self.directory = tempfile.mkdtemp(prefix="tca-test-")
        self.addCleanup(shutil.rmtree, self.directory, ignore_errors=True)

    def refused(self, *texts, options=(), arguments=(), **popen):
        """The daemon does not start, or --check fails, with this message."""
        empty = os.path.join(self.directory, "empty.conf")
        with open(empty, "w", encoding="ascii"):
            pass
        settings = {"node.runtime_dir": self.directory, "node.state_dir": self.directory, "rails.calibration": "off", **dict(options)}
        done = subprocess.run([program("tcad"), "-c", empty, *(f"-o{key}={value}" for key, value in settings.items()), *arguments],
                              capture_output=True, text=True, timeout=DEADLINE_S, check=False, **popen)
        self.assertEqual(done.returncode, 1, done.stderr)
        for text in texts:
            self.assertIn(text, done.stderr)
        return done.stderr

    def test_unknown_keys(self):
        path = os.path.join(self.directory, "tcad.conf")
        for text, *says in (("[control]\nsoket = /x\n", ":2:", "soket", "socket"), ("[kontrol]\n", ":1:", "kontrol", "control"),
                            ("[limits]\nsessions = many\n", ":2:", "sessions", "many"), ("socket = /x\n", ":1:"),
                            ("[limits]\nsessions = 0\n", ":2:", "sessions", "1"), ("[control]\n\0\n", ":2:"),
                            ("[control]\n" + "x" * 100000 + "\n", ":2:", "limit is 4096"), ("\xff\xfe", ":1:")):
            with open(path, "w", encoding="latin-1") as file:
                file.write(text)
            for arguments in (["--check"], []):
                self.refused(path + says[0], *says[1:], arguments=["-c", path, *arguments])
        self.refused("nothere", arguments=["-c", "/nothere/tcad.conf"])
        self.refused("unknown section [no]", options={"no.such": "key"})

    def test_directories(self):
        file = os.path.join(self.directory, "file")
        with open(file, "w", encoding="ascii"):
            pass
        for key in ("node.runtime_dir", "node.state_dir"):
            self.refused(file + "/sub", key, "Not a directory", options={key: file + "/sub"})
            self.refused("/proc/nothing/here", key, options={key: "/proc/nothing/here"})
        if os.geteuid() == 0:  # as a user without write permission there
            closed = os.path.join(self.directory, "closed")
            os.mkdir(closed, 0o555)
            os.chmod(self.directory, 0o755)
            def stranger():
                os.setgroups([])
                os.setgid(65534)
                os.setuid(65534)
            os.environ.setdefault("HOME", "/")
            text = self.refused("node.runtime_dir", closed, options={"node.runtime_dir": closed, "node.state_dir": closed},
                                preexec_fn=stranger)
            self.assertRegex(text, "belongs to user 0|Permission denied")

    def test_socket_paths(self):
        path = os.path.join(self.directory, "precious")
        with open(path, "w", encoding="ascii") as file:
            file.write("data")
        self.refused(path, "is not a socket", "control.socket", options={"control.socket": path})
        with open(path, encoding="ascii") as file:  # it is still there
            self.assertEqual(file.read(), "data")
        self.refused("[control] socket", "201 bytes", "the limit is 107", options={"control.socket": "/" + "x" * 200})
        self.refused("/nothere/sock", "control.socket", options={"control.socket": "/nothere/sock"})
        os.mkdir(path + ".d")
        self.refused(path + ".d", options={"control.socket": path + ".d"})

    def test_lock(self):
        """A tcad that is just starting has bound its socket and does not listen yet: another one leaves it alone."""
        path = os.path.join(self.directory, "tcad.sock")
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as bound, open(path + ".lock", "w", encoding="ascii") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            bound.bind(path)
            inode = os.stat(path).st_ino
            self.refused(f"{path}: another tcad listens on it (control.socket)", options={"control.socket": path})
            self.assertEqual(os.stat(path).st_ino, inode)
        os.unlink(path + ".lock")
        os.symlink("/etc/passwd", path + ".lock")
        self.refused(path + ".lock", "control.socket", options={"control.socket": path})

    def test_start_together(self):
        """Of many that start at once, over the remnants of a killed one, one stays."""
        path = os.path.join(self.directory, "tcad.sock")
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as killed:
            killed.bind(path)
        with open(path + ".lock", "w", encoding="ascii"):
            pass
        empty = os.path.join(self.directory, "empty.conf")
        with open(empty, "w", encoding="ascii"):
            pass
        command = [program("tcad"), "-c", empty, *(f"-o{option}" for option in (
            f"control.socket={path}", f"node.runtime_dir={self.directory}", f"node.state_dir={self.directory}", "rails.enable=shm",
            "rails.calibration=off"))]
        daemons = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True, preexec_fn=die_with_us) for _ in range(8)]
        until(lambda: sum(daemon.poll() is None for daemon in daemons) == 1, "one is left")
        ended = [daemon for daemon in daemons if daemon.poll() is not None]
        for daemon in ended:
            text = daemon.communicate()[1]
            self.assertEqual((daemon.returncode, "another tcad" in text), (1, True), text)
        stays, = (daemon for daemon in daemons if daemon.poll() is None)

        def pid():
            with contextlib.suppress(ConnectionRefusedError, FileNotFoundError), socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as client:
                client.connect(path)
                return struct.unpack("3i", client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]
        until(lambda: pid() == stays.pid, "it answers")
        stays.terminate()
        self.assertEqual((stays.communicate()[0], stays.wait()), (None, 0))
        self.assertEqual([name for name in os.listdir(self.directory) if name.startswith("tcad.sock")], [])

    def test_keys(self):
        key = os.path.join(self.directory, "key")
        conf = os.path.join(self.directory, "cluster.conf")
        with open(conf, "w", encoding="ascii") as file:
            file.write("cluster = test\na id=0 address=127.0.0.1:1 subcluster=s\nb id=1 address=127.0.0.1:2 subcluster=s\n")
        options = {"node.cluster_file": conf, "node.id": "0", "node.name": "a", "control.key_file": key}
        self.refused(key, options=options)  # none
        for content, mode in (("short", 0o600), ("0" * 64, 0o644), ("x" * 5000, 0o600)):
            with open(key, "w", encoding="ascii") as file:
                file.write(content)
            os.chmod(key, mode)
            self.refused(key, options=options)


class Running(HostileCase):
    def test_two_daemons(self):
        cluster = self.cluster()
        with self.undisturbed(cluster):
            second = subprocess.run([program("tcad"), "-c", os.path.join(cluster[0].directory, "tcad.conf")], capture_output=True,
                                    text=True, timeout=DEADLINE_S, check=False)
            self.assertEqual(second.returncode, 1)
            self.assertIn(f"{cluster[0].socket}: another tcad listens on it (control.socket): stop it", second.stderr)

    @unittest.skipIf(SLOW > 1, "sanitizers keep freed memory")
    def test_memory_is_returned(self):
        """After a peak of plans, between whose blocks lie those of regions that stay."""
        cluster = self.cluster(options={"rails.enable": "shm"})
        node, keeper, worker = cluster[0], self.open(cluster[0]), self.open(cluster[0])
        source, _, handle = worker.alloc(MIB)
        before = node.memory_kib()
        put = wire.put(source, handle, wire.contiguous(8), wire.contiguous(8))
        for _ in range(40):
            worker.ask(wire.commit([put] * 500, seat=2))
            keeper.alloc(4096)
        peak = node.memory_kib()
        self.assertGreater(peak - before, 32 << 10)
        worker.close()
        until(lambda: node.counts()[0] == 1, "the plans are released")
        until(lambda: node.memory_kib() - before < (peak - before) // 3, "most of it is returned")

    def test_socket_removed(self):
        """Open connections survive; with the lock gone, too, another daemon may take the path, and keeps it when the first one
        ends."""
        cluster = self.cluster(fresh=True)
        first = cluster[0]
        streams = self.bystanders(cluster)
        for stream in streams:
            stream.begin()
        self.assert_moving(first, streams)
        os.unlink(first.socket)
        os.unlink(first.socket + ".lock")
        for stream in streams:
            self.assertGreater(stream.finish(), 0)
        for actor in cluster.actors:
            self.assertIsNone(actor.end())
        old = first.process
        first.start()
        first.wait_ready()
        old.terminate()
        self.assertEqual(old.wait(DEADLINE_S), 0)
        self.assert_well(first)

    def test_directory_removed(self):
        cluster = self.cluster(fresh=True)
        streams = self.bystanders(cluster)
        for stream in streams:
            stream.begin()
        self.assert_moving(cluster[0], streams)
        kept = cluster[0].directory + ".gone"
        os.rename(cluster[0].directory, kept)
        shutil.rmtree(kept)
        self.assertIsNone(cluster[0].process.poll())
        for stream in streams:
            self.assertGreater(stream.finish(), 0)
        streams[0].run(10)
        os.mkdir(cluster[0].directory)

    def test_full_disk(self):
        """No space in the state directory: the rails are measured, and the log reports that the result cannot be stored."""
        full = tempfile.mkdtemp(prefix="tca-test-")
        self.addCleanup(os.rmdir, full)
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4k,mode=700", "none", full], capture_output=True, check=False).returncode:
            self.skipTest("only root can make a disk that is full")
        self.addCleanup(subprocess.run, ["umount", full], check=True)
        with open(os.path.join(full, "filler"), "wb") as filler:
            filler.write(bytes(4096))
        cluster = self.cluster(fresh=True, options={"rails.calibration": "auto", "node.state_dir": full})
        until(lambda: "calibration: " in cluster[0].log_text(), "it has calibrated")
        self.assertRegex(cluster[0].log_text(), f"calibration: {full}/.*: No space left on device: the rails will be measured again at the next")
        self.assertEqual(os.listdir(full), ["filler"])
        with self.undisturbed(cluster):
            self.assertEqual(cluster[0].tcactl("status")["calibration"]["state"], "measured")

    def test_reload_of_nonsense(self):
        cluster = self.cluster()
        conf = os.path.join(cluster[0].directory, "tcad.conf")
        with open(conf, encoding="ascii") as file:
            good = file.read()
        with self.undisturbed(cluster):
            for text in (good + "[limits]\nsesions = 1\n", good + "[control]\nsocket_mode = 999\n", "\0" * 100, "[x\n"):
                with open(conf, "w", encoding="ascii") as file:
                    file.write(text)
                result = cluster[0].tcactl_raw("reload")
                self.assertNotEqual(result.returncode, 0)
                self.assertIn("tcad.conf:", result.stdout + result.stderr)
            with open(conf, "w", encoding="ascii") as file:
                file.write(good)
            self.assertEqual(cluster[0].tcactl_raw("reload").returncode, 0)


if __name__ == "__main__":
    main()
