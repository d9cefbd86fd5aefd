"""MPI programs that know nothing of tcad, under tca-mpi and with their MPI alone."""

import os
import random
import re
import subprocess
import unittest

import harness

MPIS = ("openmpi", "mpich")
CALLS = "150"
TCA_MPI = harness.program("tca-mpi")
# The MPIs leak at their end, and what is preloaded comes before the sanitizer's library.
ENVIRONMENT = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
               "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0:verify_asan_link_order=0"}


def started(mpi, ranks):
    """The command in front of a program."""
    if mpi == "openmpi":
        return ["mpiexec.openmpi", "--oversubscribe", "--mca", "mpi_yield_when_idle", "1", "-n", str(ranks)]
    return ["mpiexec.mpich", "-n", str(ranks)]


class Mpi(harness.Case):
    def launch(self, mpi, ranks, *command, node=None, **environment):
        """Runs it to its end. node None: tcad does not run."""
        socket = node.socket if node else "/nowhere/tcad.sock"
        environment = {**ENVIRONMENT, "TCA_SOCKET": socket, **environment}
        return harness.run([*started(mpi, ranks), *command], node.process if node else None, env=environment)

    def program(self, mpi, name="messages"):
        """One that was built with this MPI."""
        name = f"mpi-{name}-{mpi}"
        if "TCA_TEST_" + name.replace("-", "_").upper() not in os.environ:
            self.skipTest(f"built without {mpi} (tools/setup --all)")
        return harness.program(name)

    def check(self, result, carried):
        self.assertEqual((result.returncode, result.stdout), (0, "0 wrong\n"), result.stderr)
        report = re.search(r"received by tcad +(\d+)$", result.stderr, re.MULTILINE)
        self.assertEqual(bool(report and int(report.group(1)) > 500), carried, result.stderr)

    def test_messages(self):
        """What MPI promises holds, by messages that tcad carries."""
        node = self.cluster()[0]
        for mpi in MPIS:
            with self.subTest(mpi=mpi):
                self.check(self.launch(mpi, 3, TCA_MPI, self.program(mpi), node=node, TCA_MPI_REPORT="1"), True)

    def test_fortran(self):
        """By each of its bindings: mpif.h, mpi, mpi_f08."""
        node = self.cluster()[0]
        for mpi in MPIS:
            for binding in range(3):
                with self.subTest(mpi=mpi, binding=binding):
                    program = self.program(mpi, f"fortran-{binding}")
                    result = self.launch(mpi, 2, TCA_MPI, "--mpi=" + mpi, program, node=node, TCA_MPI_REPORT="1")
                    self.assertEqual((result.returncode, result.stdout), (0, "0 wrong\n"), result.stderr)
                    self.assertRegex(result.stderr, r"received by tcad +14\b")

    def test_names(self):
        """Each function that the library has is there by its name for tools, too, by which Fortran calls it."""
        for mpi in MPIS:
            library = f"{os.environ['TCA_TEST_BUILD']}/client/mpi/libtca-mpi-{mpi}.so"
            if os.path.exists(library):
                with self.subTest(mpi=mpi):
                    listed = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True).stdout
                    names = {line.split()[-1] for line in listed.splitlines()}
                    wrapped = {name for name in names if name.startswith("MPI_")}
                    self.assertTrue(wrapped)
                    self.assertEqual({"P" + name for name in wrapped}, {name for name in names if name.startswith("PMPI_")})

    def test_threads(self):
        """Two threads of a rank wait for messages of their own."""
        node = self.cluster()[0]
        for mpi in MPIS:
            with self.subTest(mpi=mpi):
                self.check(self.launch(mpi, 2, TCA_MPI, self.program(mpi), "thread", node=node, TCA_MPI_REPORT="1"), True)

    def test_collectives(self):
        """Random collective operations among messages: what they must give, in the MPI alone and carried by tcad."""
        node = self.cluster()[0]
        for mpi in MPIS:
            program = self.program(mpi, "collectives")
            for _ in range(harness.rounds(2)):
                seed, ranks = random.randrange(1 << 32), random.choice((2, 3, 4))
                with self.subTest(mpi=mpi, seed=seed, ranks=ranks):
                    result = self.launch(mpi, ranks, program, str(seed), CALLS)
                    self.assertEqual((result.returncode, result.stdout), (0, "0 wrong\n"), result.stderr)
                    result = self.launch(mpi, ranks, TCA_MPI, program, str(seed), CALLS, node=node, TCA_MPI_REPORT="1", TCA_MPI_COLL="1")
                    self.assertEqual((result.returncode, result.stdout), (0, "0 wrong\n"), result.stderr)
                    self.assertRegex(result.stderr, r"(?:barriers|broadcasts|reduce|allreduce|reduce_scatter_block|allgather|alltoall) of tcad +[1-9]")

    def test_bare(self):
        """The test itself asks nothing else than what the MPI gives."""
        for mpi in MPIS:
            with self.subTest(mpi=mpi):
                self.check(self.launch(mpi, 2, self.program(mpi), node=None), False)

    def test_loaded(self):
        """A program that loads the MPI at run time, for itself."""
        node = self.cluster()[0]
        for mpi in MPIS:
            with self.subTest(mpi=mpi):
                library = self.program(mpi, "library")
                self.check(self.launch(mpi, 2, TCA_MPI, harness.program("mpi-loaded"), library, node=node, TCA_MPI_REPORT="1"), True)

    def test_nodes(self):
        """Ranks of one job on two nodes."""
        cluster = self.cluster(2)
        for mpi in MPIS:
            with self.subTest(mpi=mpi):
                words = []
                for node in cluster.nodes:
                    words += [":"] * bool(words) + ["-n", "2", "env", f"TCA_SOCKET={node.socket}", TCA_MPI, self.program(mpi)]
                command = started(mpi, 2)[:-2] + words
                result = harness.run(command, cluster[0].process, env={**ENVIRONMENT, "TCA_MPI_REPORT": "1"})
                self.check(result, True)

    def test_alone(self):
        """Without tcad, or if the user wishes, the MPI alone runs the program, and one line says why."""
        node = self.cluster()[0]
        for mpi in MPIS:
            with self.subTest(mpi=mpi):
                result = self.launch(mpi, 2, TCA_MPI, self.program(mpi), TCA_MPI_REPORT="1")
                self.check(result, False)
                self.assertRegex(result.stderr, "^tca-mpi: the program runs with its MPI alone: rank 0: no tcad answers at /nowhere")
                self.assertEqual(result.stderr.count("alone"), 1)
                result = self.launch(mpi, 2, TCA_MPI, self.program(mpi), node=node, TCA_MPI="off", TCA_MPI_REPORT="1")
                self.check(result, False)
                self.assertNotIn("tca-mpi", result.stderr)

    def test_other_programs(self):
        """A program without an MPI runs as it is; what cannot run gives the codes of a shell."""
        def tca_mpi(*words):
            bare = {name: value for name, value in os.environ.items() if not name.startswith(("OMPI_", "PMI"))}
            return subprocess.run([TCA_MPI, *words], capture_output=True, text=True, env=bare, check=False)

        result = tca_mpi("echo", "-n", "hello")
        self.assertEqual((result.returncode, result.stdout), (0, "hello"))
        self.assertRegex(result.stderr, "^tca-mpi: echo runs as it is: it loads no MPI")
        self.assertEqual(tca_mpi("/nowhere/program").returncode, 127)
        self.assertEqual(tca_mpi("--mpi=other", "echo").returncode, 2)
        self.assertEqual(tca_mpi().returncode, 2)


if __name__ == "__main__":
    unittest.main()
