#!/usr/bin/env python3
"""Starting and ending tcad, and reporting to the service manager: socket activation, the notify protocol, signals, a user's own
daemon, --check, installation."""

import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import unittest

import harness
from harness import program, until

NOBODY = 65534


class Place(unittest.TestCase):
    """A test with a directory, and processes that end with it."""

    def setUp(self):
        # Short, because it is part of socket names.
        self.place = tempfile.mkdtemp(prefix="tca-test-")
        self.addCleanup(shutil.rmtree, self.place, ignore_errors=True)
        # Nothing of the environment of the test's user: neither systemd nor tcad.
        self.environment = {name: value for name, value in os.environ.items()
                            if not name.startswith(("TCA_", "XDG_", "LISTEN_", "WATCHDOG_")) and name not in (
                                "NOTIFY_SOCKET", "JOURNAL_STREAM", "RUNTIME_DIRECTORY", "STATE_DIRECTORY",
                                "CONFIGURATION_DIRECTORY")}

    def path(self, *parts):
        return os.path.join(self.place, *parts)

    def write(self, name, text):
        with open(self.path(name), "w", encoding="ascii") as file:
            file.write(text)
        return self.path(name)

    def conf(self, extra=""):
        return self.write("tcad.conf", f"[node]\nruntime_dir = {self.place}\nstate_dir = {self.place}/state\n"
                                       f"[rails]\ncalibration = off\n{extra}")

    def popen(self, *command, environment=None, code=0):
        """Ends the process at the end of the test; its exit code must be this one. None: the test looks at it."""
        with open(self.path("log"), "ab") as log:
            process = subprocess.Popen(command, env={**self.environment, **(environment or {})}, stdin=subprocess.DEVNULL,
                                       stdout=log, stderr=log)
        self.addCleanup(self.end, process, code)
        return process

    def end(self, process, code):
        if process.poll() is None:
            process.terminate()
        try:
            process.wait(harness.DEADLINE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            self.fail(f"{process.args} did not end when asked to")
        if code is not None:
            self.assertEqual(process.returncode, code, f"{process.args}: {self.log()}")

    def log(self):
        with open(self.path("log"), encoding="utf-8", errors="replace") as log:
            return log.read()

    def call(self, *command, environment=None, **arguments):
        return subprocess.run(command, env={**self.environment, **(environment or {})}, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=harness.DEADLINE_S, check=False, **arguments)

    def works(self, *command, **arguments):
        result = self.call(*command, **arguments)
        self.assertEqual(result.returncode, 0, f"{command}: {result.stdout}{result.stderr}")
        return result.stdout


class SocketActivation(Place):
    def test_first_client_starts_it(self):
        activate = shutil.which("systemd-socket-activate")
        if not activate:
            self.skipTest("systemd-socket-activate is not installed")
        path = self.path("tcad.sock")
        # That tcad uses the socket that was passed, and not one of its own, shows in the name, which its own would not have.
        conf = self.conf("[control]\nsocket = " + self.path("other.sock") + "\n")
        # -E: it passes no environment by itself.
        passed = [word for name in ("ASAN_OPTIONS", "LSAN_OPTIONS", "UBSAN_OPTIONS", "LD_LIBRARY_PATH")
                  if name in self.environment for word in ("-E", name)]
        process = self.popen(activate, "--seqpacket", *passed, "-l", path, program("tcad"), "-c", conf)
        until(lambda: os.path.exists(path), "the socket is there")
        # Without a client, the process is still systemd-socket-activate.
        self.assertEqual(self.program_of(process), os.path.realpath(activate))
        status = self.works(program("tcactl"), "status", environment={"TCA_SOCKET": path})
        self.assertIn("ready", status)
        self.assertEqual(self.program_of(process), os.path.realpath(program("tcad")))
        self.assertFalse(os.path.exists(self.path("other.sock")), "it made a socket of its own")
        process.terminate()
        self.assertEqual(process.wait(harness.DEADLINE_S), 0, self.log())
        # The socket belongs to its creator: the next client starts the next tcad.
        self.assertTrue(os.path.exists(path), "it removed a socket that is not its own")

    @staticmethod
    def program_of(process):
        return os.readlink(f"/proc/{process.pid}/exe")


class Notify(Place):
    """The messages to systemd. The states of one tcad arrive as datagrams, each with a few lines NAME=value."""

    def begin(self, code=0, **environment):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.addCleanup(self.socket.close)
        self.socket.bind(self.path("notify"))
        self.socket.settimeout(harness.DEADLINE_S)
        return self.popen(program("tcad"), "-c", self.conf(), code=code,
                          environment={"NOTIFY_SOCKET": self.path("notify"), **environment})

    def next(self):
        lines = self.socket.recv(65536).decode().splitlines()
        return dict(line.split("=", 1) for line in lines)

    def next_but_watchdog(self):
        while (state := self.next()) == {"WATCHDOG": "1"}:
            pass
        return state

    def assert_connects(self):
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as client:
            client.connect(self.path("tcad.sock"))

    def test_states(self):
        process = self.begin()
        state = self.next()
        self.assert_connects()  # at once: ready is true when it is reported
        self.assertEqual(state, {"READY": "1", "STATUS": "ready"})
        for _ in range(2):
            before = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
            process.send_signal(signal.SIGHUP)
            state = self.next()
            self.assertEqual(state.pop("RELOADING"), "1")
            # For Type=notify-reload: the time, by the clock that systemd compares with.
            self.assertGreaterEqual(int(state.pop("MONOTONIC_USEC")), before)
            self.assertEqual(state, {})
            self.assertEqual(self.next(), {"READY": "1"})
        self.works(program("tcactl"), "status", environment={"TCA_SOCKET": self.path("tcad.sock")})
        process.terminate()
        self.assertEqual(self.next(), {"STOPPING": "1"})
        self.assertEqual(process.wait(harness.DEADLINE_S), 0)

    def test_reload_of_errors_is_told_too(self):
        process = self.begin()
        self.next()
        self.write("tcad.conf", "[node]\nnmae = x\n")
        process.send_signal(signal.SIGHUP)
        self.assertIn("RELOADING", self.next())
        self.assertEqual(self.next(), {"READY": "1"})
        self.assertIn("tcad.conf:2: ", self.log())
        self.assert_connects()

    def test_watchdog(self):
        process = self.begin(WATCHDOG_USEC="200000")
        self.assertIn("READY", self.next())
        for _ in range(3):
            self.assertEqual(self.next(), {"WATCHDOG": "1"})
        # A hanging daemon does not feed it.
        process.send_signal(signal.SIGSTOP)
        until(lambda: self.state_of(process) == "T", "it is stopped")
        self.socket.settimeout(1)
        with self.assertRaises(TimeoutError):
            for _ in range(1000):  # what it had said before
                self.next()
        process.send_signal(signal.SIGCONT)
        self.socket.settimeout(harness.DEADLINE_S)
        self.assertEqual(self.next(), {"WATCHDOG": "1"})
        process.terminate()
        self.assertEqual(self.next_but_watchdog(), {"STOPPING": "1"})

    @staticmethod
    def state_of(process):
        with open(f"/proc/{process.pid}/stat", encoding="ascii", errors="replace") as stat:
            return stat.read().rsplit(") ", 1)[1][0]

    def test_watchdog_of_another_process_is_not_fed(self):
        self.begin(WATCHDOG_USEC="100000", WATCHDOG_PID="1")
        self.assertIn("READY", self.next())
        self.socket.settimeout(1)
        with self.assertRaises(TimeoutError):
            self.next()

    def test_nothing_is_ready_that_does_not_start(self):
        os.mkdir(self.path("tcad.sock"))  # in the way of its socket
        process = self.begin(code=1)
        process.wait(harness.DEADLINE_S)
        self.assertIn("tcad.sock", self.log())
        self.socket.setblocking(False)
        with self.assertRaises(BlockingIOError):
            self.next()


class Signals(Place):
    """Libraries of networks install handlers before main() that call exit(1) without a message: tcad's count."""

    def begin(self):
        return self.popen(program("tcad"), "-c", self.conf(), code=None)

    def until_ready(self, process):
        until(lambda: os.path.exists(self.path("tcad.sock")), "it is ready")
        self.assertIsNone(process.poll(), self.log())

    def test_ended_during_its_start(self):
        """It ends as always. Only before it has loaded its libraries, the signal kills it."""
        def ended_after(seconds):
            process = self.begin()
            time.sleep(seconds)
            process.terminate()
            return process.wait(harness.DEADLINE_S)

        codes = {ended_after(ms % 50 / 1000 * harness.SLOW) for ms in range(harness.rounds(50))}
        late = 0.1
        while 0 not in codes and late < harness.DEADLINE_S:  # on a busy machine, it was always too early
            codes.add(ended_after(late))
            late *= 2
        self.assertLessEqual(codes, {0, -signal.SIGTERM}, self.log())
        self.assertIn(0, codes)

    def test_ended_again_and_again(self):
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            process = self.begin()
            self.until_ready(process)
            process.terminate()
            while process.poll() is None:
                process.send_signal(number)
            self.assertEqual(process.returncode, 0, self.log())

    def test_a_crash_is_one(self):
        process = self.begin()
        self.until_ready(process)
        process.send_signal(signal.SIGABRT)
        self.assertEqual(process.wait(harness.DEADLINE_S), -signal.SIGABRT)


class User(Place):
    """tcad without root, with only the user's own directories."""

    def setUp(self):
        super().setUp()
        self.as_user = []
        self.user = os.geteuid()
        if self.user == 0:
            if not shutil.which("setpriv"):
                self.skipTest("setpriv is not installed")
            self.user = NOBODY
            self.as_user = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
        if self.call(*self.as_user, program("tcad"), "--version").returncode != 0:
            self.skipTest(f"user {self.user} cannot execute {program('tcad')}")
        for name in ("run", "home"):
            os.mkdir(self.path(name), 0o700)
            os.chown(self.path(name), self.user, -1)
        os.chmod(self.place, 0o755)
        self.environment.update(XDG_RUNTIME_DIR=self.path("run"), HOME=self.path("home"))

    def tcad(self):
        return self.popen(*self.as_user, program("tcad"), "-o", "rails.calibration=off")

    def test_defaults(self):
        path = self.path("run", "tcad", "tcad.sock")
        conf = self.works(*self.as_user, program("tcad"), "--show-config")
        self.assertIn(path, conf)
        self.assertIn(self.path("home", ".local", "state", "tcad"), conf)
        self.tcad()
        # libtca finds it without configuration.
        until(lambda: self.call(*self.as_user, program("tcactl"), "status").returncode == 0, "tcactl finds the user's tcad")
        self.assertIn(path, self.works(*self.as_user, program("tcactl"), "status"))
        status = os.stat(path)
        self.assertEqual(status.st_uid, self.user)
        # The directory keeps other users out.
        self.assertEqual(os.stat(self.path("run", "tcad")).st_mode & 0o077, 0)

    def test_its_own_configuration(self):
        os.makedirs(self.path("home", ".config", "tcad"))
        with open(self.path("home", ".config", "tcad", "tcad.conf"), "w", encoding="ascii") as conf:
            conf.write("[node]\nname = at-home\n")
        self.assertRegex(self.works(*self.as_user, program("tcad"), "--show-config"), r"(?m)^name = at-home$")

    def test_directory_of_somebody_else(self):
        if not self.as_user:
            self.skipTest("only root can make a directory of somebody else")
        os.mkdir(self.path("run", "tcad"), 0o777)
        os.chmod(self.path("run", "tcad"), 0o777)
        result = self.call(*self.as_user, program("tcad"), "-o", "rails.calibration=off")
        self.assertEqual(result.returncode, 1)
        self.assertIn("belongs to user 0", result.stderr)


class Check(Place):
    def check(self, text, cluster=None):
        if cluster is not None:
            text += f"[node]\ncluster_file = {self.write('cluster.conf', cluster)}\n"
        return self.call(program("tcad"), "-c", self.write("tcad.conf", text), "--check")

    def test_good(self):
        result = self.check("[node]\nid = 7\n")
        self.assertEqual((result.returncode, result.stdout, result.stderr), (0, f"{self.path('tcad.conf')}: valid\n", ""))

    def test_bad(self):
        """Reports all errors, with file and line, not only the first."""
        result = self.check("[node]\nidd = 7\n\n[limits]\nsessions = many\n[nonsense]\nx = 1\n")
        self.assertEqual(result.returncode, 1)
        self.assertEqual(result.stdout, "")
        for line in (2, 5, 6):
            self.assertIn(f"{self.path('tcad.conf')}:{line}: ", result.stderr)
        self.assertIn("idd", result.stderr)
        self.assertIn("many", result.stderr)

    def test_bad_cluster_file(self):
        result = self.check("", cluster="cluster = c\na id=0 address=127.0.0.1:7080\nb id=0 address=127.0.0.1:7081\n")
        self.assertEqual(result.returncode, 1)
        self.assertIn(f"{self.path('cluster.conf')}:3: ", result.stderr)

    def test_no_such_file(self):
        result = self.call(program("tcad"), "-c", self.path("absent.conf"), "--check")
        self.assertEqual(result.returncode, 1)
        self.assertIn(self.path("absent.conf"), result.stderr)

    def test_usage(self):
        self.assertEqual(self.call(program("tcad"), "--chekc").returncode, 2)
        self.assertEqual(self.call(program("tcad"), "--check", "argument").returncode, 2)

    def test_starts_nothing(self):
        self.works(program("tcad"), "-c", self.conf(), "--check")
        self.assertEqual(os.listdir(self.place), ["tcad.conf"])


class Installation(Place):
    """meson install, and a program built against the result."""

    def setUp(self):
        super().setUp()
        self.build, self.source = os.environ["TCA_TEST_BUILD"], os.environ["TCA_TEST_SOURCE"]
        self.works("meson", "install", "-C", self.build, "--no-rebuild", "--quiet", "--destdir", self.place)
        options = self.works("meson", "introspect", self.build, "--buildoptions")
        self.options = {option["name"]: option["value"] for option in harness.json.loads(options)}
        self.prefix = self.place + self.options["prefix"]
        self.lib = os.path.join(self.prefix, self.options["libdir"])

    def assert_there(self, *names):
        self.assertEqual([name for name in names if not os.path.exists(os.path.join(self.prefix, name))], [])

    def test_files(self):
        self.assert_there(
            "bin/tcad", "bin/tcactl", "bin/tca-cluster", "bin/tca-bench", "include/tca.h", "include/tca-admin.h",
            "lib/systemd/system/tcad.service", "lib/systemd/system/tcad.socket", "lib/systemd/user/tcad.service",
            "lib/systemd/user/tcad.socket", "lib/sysusers.d/tcad.conf", "lib/tmpfiles.d/tcad.conf",
            "share/bash-completion/completions/tcactl", "share/bash-completion/completions/tca-cluster",
            "share/bash-completion/completions/tca-bench", "share/zsh/site-functions/_tca-bench",
            "share/zsh/site-functions/_tcactl", "share/zsh/site-functions/_tca-cluster",
            "share/doc/tcad/tcad.conf.example", "share/doc/tcad/cluster.conf.example")
        if shutil.which("scdoc"):
            self.assert_there(*("share/man/man" + page[-1] + "/" + page for page in (
                "tcad.8", "tcad.conf.5", "cluster.conf.5", "tcactl.1", "tca-cluster.1", "tca-bench.1", "tca.7")))
        self.assert_there(*(f"share/man/man3/{name}.3" for name in ("tca_open", "tca_close", "tca_plan", "tca_start", "tca_notified_wait")))

    def test_library(self):
        with open(os.path.join(self.lib, "libtca.so"), encoding="ascii") as script:
            self.assertIn("INPUT ( libtca.so.0 AS_NEEDED ( libtca-compat.so.0 ) )", script.read())
        library = os.path.join(self.lib, "libtca.so.0")
        self.assertRegex(self.works("readelf", "-d", library), r"SONAME.*\[libtca\.so\.0\]")
        # Only symbols with the prefix are exported.
        symbols = self.works("nm", "-D", "--defined-only", "--format=posix", library)
        names = set(re.findall(r"(?m)^(\w+)\S* [^A]", symbols))  # A: the version itself
        self.assertIn("tca_open", names)
        if self.options["b_sanitize"] == "none":
            # Those of tca.h and tca-dcfa.h, and of tca-api.h, whose names its users define: tcaInit, tcaDescSet ...
            self.assertEqual({name for name in names if not re.match(r"tca_|TCA_|tca[A-Z]|dcfa_", name)}, set())

    def test_units_start_what_was_installed(self):
        for kind in ("system", "user"):
            with open(os.path.join(self.prefix, "lib/systemd", kind, "tcad.service"), encoding="ascii") as unit:
                self.assertIn(f"ExecStart={self.options['prefix']}/bin/tcad\n", unit.read())

    def test_programs_do_not_need_the_build(self):
        for name in ("tcad", "tcactl", "tca-cluster", "tca-bench"):
            path = os.path.join(self.prefix, "bin", name)
            self.assertNotIn(self.build, self.works("readelf", "-d", path))
            self.assertIn(name, self.works(path, "--help", environment={"LD_LIBRARY_PATH": self.lib}))

    def compile(self, compiler, *arguments):
        if self.options["b_sanitize"] != "none":
            self.skipTest("what is built against a library with a sanitizer needs it too")
        found = self.works("pkg-config", "--cflags", "--libs", "tca",
                           environment={"PKG_CONFIG_LIBDIR": os.path.join(self.lib, "pkgconfig"),
                                        "PKG_CONFIG_SYSROOT_DIR": self.place}).split()
        self.assertIn("-I" + os.path.join(self.prefix, "include"), found)
        output = self.path("pingpong")
        self.works(compiler, "-Wall", "-Wextra", "-Werror", *arguments, *found, "-o", output, cwd=self.place)
        return output

    def test_c_program(self):
        """pingpong, built as a user of the library builds it, runs on the installed tcad."""
        pingpong = self.compile("cc", "-std=c11", os.path.join(self.source, "client/examples/pingpong.c"))
        self.popen(os.path.join(self.prefix, "bin/tcad"), "-c", self.conf())
        until(lambda: os.path.exists(self.path("tcad.sock")), "the installed tcad listens")
        environment = {**self.environment, "LD_LIBRARY_PATH": self.lib, "TCA_SOCKET": self.path("tcad.sock"),
                       "TCA_GROUP": "installed", "TCA_SIZE": "2"}
        ranks = [subprocess.Popen([pingpong], env={**environment, "TCA_RANK": str(rank)}, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True) for rank in range(2)]
        for rank in ranks:
            said, _ = rank.communicate(timeout=harness.DEADLINE_S)
            self.assertEqual(rank.returncode, 0, said)
            self.assertIn("1000 starts", said)

    def test_cxx_program(self):
        source = self.write("program.cpp", '#include <tca.h>\n#include <tca-admin.h>\n#include <cstdio>\n'
                                           'int main() { std::puts(tca_version()); return 0; }\n')
        output = self.compile("c++", "-std=c++17", "-pedantic", source)
        self.assertRegex(self.works(output, environment={"LD_LIBRARY_PATH": self.lib}), r"^\d+\.\d+\.\d+$")


if __name__ == "__main__":
    harness.main()
