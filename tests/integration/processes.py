"""What the tests need to start processes and to wait for them."""

import ctypes
import os
import shutil
import signal
import time

DEADLINE_S = 60 * float(os.environ.get("TCA_TEST_SLOW", "1"))
SLOW = float(os.environ.get("TCA_TEST_SLOW", "1"))  # several times slower, as under a sanitizer


def die_with_us():
    """In a child before its exec: it is killed when the test itself is, whatever kills that."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def program(name):
    """A built program: where TCA_TEST_<NAME> says, else in PATH."""
    path = os.environ.get("TCA_TEST_" + name.upper().replace("-", "_")) or shutil.which(name)
    if not path:
        raise RuntimeError(f"{name} is not in PATH and TCA_TEST_{name.upper().replace('-', '_')} is not set")
    return path


def until(condition, what, seconds=DEADLINE_S, pause=0.01):
    """Waits until condition() is true, and returns what it returned. An AssertionError of it counts as not yet."""
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
