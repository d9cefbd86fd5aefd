"""The tests of mpi4py, under tca-mpi and with its MPI alone: each test ends the same. Needs python3-mpi4py and the sources of its
version: TCA_MPI4PY_SOURCE, or from GitHub."""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

import harness
from test_mpi import ENVIRONMENT, TCA_MPI, started

PYTHON = "/usr/bin/python3"
REPOSITORY = "https://github.com/mpi4py/mpi4py"
# They start other processes, or only read and write files.
LEFT_OUT = ("spawn", "test_dynproc", "test_io", "test_file", "test_dl")


def version():
    said = subprocess.run([PYTHON, "-c", "import mpi4py; print(mpi4py.__version__)"], capture_output=True, text=True, check=False)
    return said.stdout.strip() if said.returncode == 0 else None


def sources(directory, wanted):
    """The directory of its tests, or None."""
    given = os.environ.get("TCA_MPI4PY_SOURCE")
    if given:
        return pathlib.Path(given, "test")
    clone = ["git", "-c", "advice.detachedHead=false", "clone", "-q", "--depth", "1", "--branch", wanted, REPOSITORY, f"{directory}/mpi4py"]
    said = subprocess.run(clone, capture_output=True, text=True, timeout=120, check=False, env={**os.environ, "GIT_TERMINAL_PROMPT": "0"})
    return pathlib.Path(directory, "mpi4py/test") if said.returncode == 0 else None


class Mpi4py(harness.Case):
    def scratch(self):
        directory = tempfile.mkdtemp(prefix="tca-test-mpi4py-")
        self.addCleanup(shutil.rmtree, directory, ignore_errors=True)
        return pathlib.Path(directory)

    def play(self, tests, ranks, node=None):
        """{test: how it ended} of all ranks, and how many messages tcad has carried."""
        scratch = self.scratch()
        left_out = [word for name in LEFT_OUT for word in ("-e", name)]
        run = [PYTHON, str(tests / "runtests.py"), "--no-builddir", "-v", *left_out]
        apart = ["sh", "-c", f'exec "$@" >{scratch}/said.$OMPI_COMM_WORLD_RANK 2>&1', "sh"]
        environment = {**ENVIRONMENT, "TCA_SOCKET": node.socket if node else "/nowhere", "TCA_MPI_REPORT": "1"}
        command = [*started("openmpi", ranks), *apart, *([TCA_MPI] if node else []), *run]
        subprocess.run(command, env=environment, cwd=tests, timeout=900, stdin=subprocess.DEVNULL, capture_output=True, check=False)
        ended, carried = {}, 0
        for rank in range(ranks):
            said = (scratch / f"said.{rank}").read_text(errors="replace")
            for name, how in re.findall(r"^(test\w+ \(\S+\)).*?\.\.\. *(ok|skipped|FAIL|ERROR|expected failure)", said, re.MULTILINE):
                ended[rank, name] = how
            self.assertRegex(said, r"(?m)^Ran \d+ tests", f"rank {rank} did not end:\n{said[-2000:]}")
            carried += sum(map(int, re.findall(r"received by tcad +(\d+)", said)))
        return ended, carried

    def test_suite(self):
        wanted = version()
        if not wanted or not shutil.which("mpiexec.openmpi"):
            self.skipTest("needs python3-mpi4py and Open MPI")
        tests = sources(self.scratch(), wanted)
        if not tests:
            self.skipTest(f"the sources of mpi4py {wanted} cannot be had: set TCA_MPI4PY_SOURCE to them")
        node = self.cluster()[0]
        for ranks in (2, 3, 5):
            with self.subTest(ranks=ranks):
                alone, _ = self.play(tests, ranks)
                under, carried = self.play(tests, ranks, node)
                self.assertGreater(len(alone), 1000 * ranks)
                self.assertEqual({key: (how, under.get(key)) for key, how in alone.items() if under.get(key) != how}, {})
                self.assertGreater(carried, 10000)


if __name__ == "__main__":
    unittest.main()
