"""Starting processes and waiting for them."""

import ctypes
import os
import re
import shutil
import signal
import subprocess
import time

DEADLINE_S = 60 * float(os.environ.get("TCA_TEST_SLOW", "1"))
SLOW = float(os.environ.get("TCA_TEST_SLOW", "1"))  # several times slower, as under a sanitizer


def rounds(count):
    """How often to repeat a random test: `count` times in the suite, twenty times that with TCA_TEST_ROUNDS=20."""
    return max(1, round(count * float(os.environ.get("TCA_TEST_ROUNDS", "1"))))


def die_with_us():
    """In a child before its exec: it is killed when the test ends, however that ends."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def program(name):
    """A built program: the path in TCA_TEST_<NAME>, else from PATH."""
    path = os.environ.get("TCA_TEST_" + name.upper().replace("-", "_")) or shutil.which(name)
    if not path:
        raise RuntimeError(f"{name} is not in PATH and TCA_TEST_{name.upper().replace('-', '_')} is not set")
    return path


def until(condition, what, seconds=DEADLINE_S, pause=0.01):
    """Waits until condition() is true, and returns its result. An AssertionError in it counts as not yet."""
    end = time.monotonic() + seconds
    while True:
        last = None
        try:
            value = condition()
            if value:
                return value
        except AssertionError as error:
            last = error
        if time.monotonic() > end:
            raise AssertionError(f"not within {seconds:.0f} s: {what}") from last
        time.sleep(pause)


def stop(pid):
    """Stops a process. Its threads do not stop at once: waits until all of them have."""
    def state(task):
        with open(f"/proc/{pid}/task/{task}/stat", encoding="ascii", errors="replace") as stat:
            return stat.read().rsplit(") ", 1)[1][0]

    os.kill(pid, signal.SIGSTOP)
    until(lambda: all(state(task) == "T" for task in os.listdir(f"/proc/{pid}/task")), f"process {pid} has stopped")


def threads(pid):
    """The kernel's view of a process's threads, and their stacks if gdb is installed, as lines."""
    for task in os.listdir(f"/proc/{pid}/task"):
        for name in ("stat", "wchan", "syscall"):
            with open(f"/proc/{pid}/task/{task}/{name}", encoding="ascii", errors="replace") as file:
                yield f"thread {task}: {name}: {file.read().strip()}"
    if shutil.which("gdb"):
        gdb = subprocess.run(["gdb", "-p", str(pid), "-batch", "-ex", "thread apply all backtrace 16"], stdin=subprocess.DEVNULL,
                             capture_output=True, text=True, errors="replace", timeout=DEADLINE_S, check=False)
        yield from (line for line in (gdb.stdout + gdb.stderr).splitlines() if re.match(r"#|Thread |.*(annot|not permitted|traced)", line))


def stacks(*processes):
    """The stacks of processes that hang."""
    lines = []
    for process in filter(None, processes):
        lines.append(f"---- {process.args[0]}, pid {process.pid}")
        try:
            lines += threads(process.pid)
        except (OSError, subprocess.TimeoutExpired) as error:
            lines.append(str(error))
    return "\n".join(lines)


def run(command, beside=None, **options):
    """Runs a command that queries the process `beside`. If it hangs, shows the stacks of both."""
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace",
                          **options) as process:
        try:
            said, complained = process.communicate(timeout=DEADLINE_S)
        except subprocess.TimeoutExpired:
            where = stacks(process, beside)
            process.kill()
            said, complained = process.communicate()
            raise RuntimeError(f"{command} did not end within {DEADLINE_S:.0f} s\n{said[:2000]}\n{complained[:2000]}\n{where}") from None
    return subprocess.CompletedProcess(command, process.returncode, said, complained)
