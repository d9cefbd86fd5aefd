"""The programs that ddt runs: each moves all patterns in one start, and prints a line of JSON for each pattern and way."""
import json
import os
import tempfile

from peers.launch import ROOT, Cluster, mpi_command, mpi_compile, mpi_environment, mpi_name, run, stream

COMMON = ["arguments.c", "form.c", "measure.c", "pattern.c", "patterns_ddtbench.c", "patterns_plain.c", "pieces.c", "side.c"]


class Program:
    """key: in the results; name: for display."""

    def rows(self, numbers, seconds, check):
        """The patterns of these numbers, `seconds` for each way of each; check: that nothing outside the data is written."""
        patience_s = 60 + len(numbers) * (5 + 20 * seconds)
        with tempfile.NamedTemporaryFile(prefix="tca-ddt-") as side:
            arguments = [side.name, str(seconds), "1" if check else "0", ",".join(map(str, numbers))]
            for line in stream(self.command + arguments, patience_s, env=self.environment):
                yield json.loads(line)


class Ours(Program):
    key, name = "tcad", "tcad"

    def __init__(self, build, copy=None):
        """copy: in this copy mode only; else in the one that the plan finds by trial."""
        here = "tests/bench/ddtbench"
        if copy:
            self.key, self.name = f"tcad_{copy}", f"tcad, {copy}"
        self.list = str(build / here / "ddt_list")
        self.cluster = Cluster(build, 1, f"{here}/ddt_list", f"{here}/ddt_tca")
        self.command = self.cluster.command(1, 2, "--bind") + [str(build / here / "ddt_tca")]
        self.environment = dict(os.environ, TCA_COPY=copy) if copy else None

    def patterns(self):
        return [json.loads(line) for line in run([self.list]).splitlines()]


class Mpi(Program):
    def __init__(self, mpi, transport, out):
        self.key = f"{mpi}_{transport}" if transport else mpi
        self.name = mpi_name(mpi, transport)
        here = ROOT / "tests" / "bench" / "ddtbench"
        program = mpi_compile(mpi, out / f"ddt_mpi.{mpi}", [here / name for name in ["ddt_mpi.c", "mpi_types.c"] + COMMON], "-O3")
        self.command = mpi_command(mpi, transport) + [program]
        self.environment = mpi_environment(mpi)
