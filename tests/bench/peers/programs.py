"""The programs that compare runs: tcad's, MPI's, libfabric's. run(job) gives rows (work, bytes, value, unit)."""
import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import time

from peers.launch import MPI_NAMES, ROOT, Cluster, Skip, mpi_command, mpi_compile, mpi_environment, run

ALL_SIZES = [8, 64, 512, 4096, 16384, 65536, 262144, 1048576, 4194304]
QUICK_SIZES = [8, 4096, 65536, 1048576]
BLOCKS = [8192, 65536, 524288]
BIG = 4194304
SWEEPS = {"S": 60, "M": 12}

# Where the two ranks are.
NODE, NET = "one node", "between nodes"


@contextlib.contextmanager
def environment(**values):
    """Sets these variables for processes started in the block."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def rows_of(lines, place):
    """Rows from the JSON lines of tca-bench or mpi_bench."""
    rows = []
    for line in lines.splitlines():
        row = json.loads(line)
        bench, size = row["bench"], row["bytes"]
        strided = ", block-stride" if row["layout"] == "block-stride" else ""
        seat = f", {row['seat']} seat" if "seat" in row else ""
        if bench == "pingpong":
            rows.append((f"{place}: one way{strided}", size, row["median_ns"] / 1e3, "us"))
        elif bench == "untouched":
            rows.append((f"{place}: one way, untouched", size, row["median_ns"] / 1e3, "us"))
        elif bench == "bandwidth":
            rows.append((f"{place}: bandwidth one way{strided}", size, row["gbps"], "Gbit/s"))
        elif bench == "start":
            rows.append((f"{place}: start{seat}", size, row["median_ns"] / 1e3, "us"))
        elif bench == "overlap":
            rows.append((f"{place}: transfer hidden by computing", size, row["hidden"] * 100, "%"))
    return rows


def sizes(quick):
    return ",".join(map(str, QUICK_SIZES if quick else ALL_SIZES))


def jobs(quick):
    """By place: (place, benchmark, sizes, layout), one start of a program each; or (place, "himeno", size, split)."""
    by_place = {
        NODE: [(NODE, "pingpong", sizes(quick), "contiguous"), (NODE, "start", "8", "contiguous")],
        NET: [(NET, "pingpong", sizes(quick), "contiguous"), (NET, "bandwidth", "65536,1048576", "contiguous"),
              (NET, "start", "8", "contiguous"), (NET, "overlap", str(BIG), "contiguous")],
    }
    blocks = ",".join(map(str, BLOCKS[:2] if quick else BLOCKS))
    for place, more in by_place.items():
        more.append((place, "pingpong", blocks, "block-stride"))
        more += [(place, "himeno", size, "2x1x1") for size in (["S"] if quick else ["S", "M"])]
    return by_place


UNTOUCHED = [65536, 262144, 1048576, 4194304]  # where reading and writing the data takes time that fi_pingpong saves


class Ours:
    """In the client's seat, where the processes move the data themselves, like the peers' processes."""

    name = "tcad"
    seat = "client"

    def __init__(self, build, quick, encrypts=False):
        bench, himeno = "tools/tca-bench/tca-bench", "client/examples/himeno/himeno"
        self.cluster = Cluster(build, 2, bench, himeno, encrypts=encrypts)
        self.bench, self.himeno = str(build / bench), str(build / himeno)
        self.seconds = "0.03" if quick else "0.05"
        self.all_jobs = [job for place in jobs(quick).values() for job in place]
        self.all_jobs.append((NET, "untouched", ",".join(map(str, UNTOUCHED)), "contiguous"))

    def up(self):
        self.cluster.up()

    def down(self):
        self.cluster.down()

    def line_ns(self):
        return float(run([self.bench, "--line"]))

    def jobs(self):
        return self.all_jobs

    def bounds(self, job, line_ns):
        """The processors themselves, which bound the smallest message: by name, a cache line that both write, and bare stores of
        data and of a flag."""
        if job[:2] != (NODE, "pingpong") or job[3] != "contiguous":
            return {}
        stores_ns = float(run([self.bench, "--stores"]))
        return {name: [(f"{NODE}: one way", 8, ns / 1e3, "us")] for name, ns in (("cache line", line_ns), ("bare stores", stores_ns))}

    def run(self, job):
        place, bench, what, layout = job
        on = (1, 2) if place == NODE else (2, 1)
        if bench == "himeno":
            split = ["--size", what, "--split", layout, "--iterations", str(SWEEPS[what]), "--json"]
            with environment(TCA_SEAT=self.seat):
                row = json.loads(run(self.cluster.command(*on, "--bind") + [self.himeno] + split))
            return [(f"{place}: Himeno {what} {layout}", 0, row["mflops"], "MFLOPS")]
        with tempfile.NamedTemporaryFile(prefix="tca-compare-") as found:
            args = ["-b", bench, "-s", what, "-l", layout, "-t", self.seconds, "-j", found.name]
            if bench == "overlap":  # in the client's seat, the data competes with the program for its processor
                args += ["-e", "daemon"]
            elif bench != "start":  # which is measured in both seats
                args += ["-e", self.seat]
            run(self.cluster.command(*on) + [self.bench] + args)
            return rows_of(found.read().decode(), place)


class Served(Ours):
    """Between nodes in the daemon's seat, on the cluster of the first."""

    name = "tcad, daemon"
    seat = "daemon"

    def __init__(self, build, quick):
        super().__init__(build, quick)
        self.all_jobs = [job for job in jobs(quick)[NET] if job[1] not in ("start", "overlap")]


class Encrypted(Ours):
    """Between nodes with encrypted connections, on a cluster of its own while its jobs run."""

    name = "tcad, TLS"

    def __init__(self, build, quick):
        super().__init__(build, quick, encrypts=True)
        self.all_jobs = [job for job in jobs(quick)[NET] if job[1] not in ("start", "overlap")]

    def run(self, job):
        with tempfile.TemporaryDirectory(prefix="tca-compare-") as scratch, environment(TCA_CLUSTER_DIR=scratch + "/cluster"):
            self.up()
            try:
                return super().run(job)
            finally:
                self.down()


class Mpi:
    def __init__(self, mpi, tcp, out, quick):
        self.name = MPI_NAMES[mpi] + (", TCP" if tcp else "")
        self.place = NET if tcp else NODE
        self.seconds = "0.03" if quick else "0.05"
        self.all_jobs = jobs(quick)[self.place]
        self.environment = mpi_environment(mpi, "tcp" if tcp else None)
        self.command = mpi_command(mpi, "tcp" if tcp else None)
        peers, himeno = ROOT / "tests" / "bench" / "peers", ROOT / "client" / "examples" / "himeno"
        self.bench = mpi_compile(mpi, out / f"mpi_bench.{mpi}", [peers / "mpi_bench.c"], "-O2", "-ffp-contract=off")
        self.himeno = mpi_compile(mpi, out / f"himeno_mpi.{mpi}",
                                  [peers / "himeno_mpi.c", himeno / "grid.c", himeno / "times.c"], "-O3", "-ffp-contract=off")

    def jobs(self):
        return self.all_jobs

    def run(self, job):
        place, bench, what, layout = job
        if bench == "himeno":
            parts = layout.split("x")
            row = json.loads(run(self.command + [self.himeno, what, parts[0], parts[1], str(SWEEPS[what])],
                                 env=self.environment))
            return [(f"{place}: Himeno {what} {layout}", 0, row["mflops"], "MFLOPS")]
        lines = run(self.command + [self.bench, self.seconds, bench, what, layout], env=self.environment)
        rows = rows_of(lines, place)
        if bench == "start":  # the peer of tca_start() in both seats
            rows = [(f"{work}, {seat} seat", size, value, unit) for work, size, value, unit in rows for seat in ("client", "daemon")]
        return rows


class FiPingpong:
    """fi_pingpong over tcp. It does not touch its data, so it is faster at large sizes, where "untouched" compares it with a
    tcad that does not either; and it sleeps while it waits, so it is not pinned: on two processors each message would cost a wake-up across them, several times the unpinned time."""

    name = "fi_pingpong"

    def __init__(self, quick):
        if not shutil.which(self.name):
            raise Skip(f"{self.name}: is not there (tools/setup --all)")
        self.sizes = QUICK_SIZES if quick else ALL_SIZES

    def jobs(self):
        return self.sizes

    def run(self, size):
        rounds = str(2000 if size <= 4096 else 200 if size <= 65536 else 40)
        port = str(20000 + os.getpid() % 20000)
        command = [self.name, "-p", "tcp", "-e", "msg", "-I", rounds, "-S", str(size)]
        server = subprocess.Popen(command + ["-B", port], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            wait_for_listener(int(port), server)
            text = run(command + ["-P", port, "127.0.0.1"])
            server.wait(timeout=10)
        finally:
            server.kill()
            server.wait()
        one_way_us = float(text.splitlines()[-1].split()[6])
        rows = [(f"{NET}: one way", size, one_way_us, "us")]
        if size in UNTOUCHED:
            rows.append((f"{NET}: one way, untouched", size, one_way_us, "us"))
        if size in (65536, 1048576):
            rows.append((f"{NET}: bandwidth one way", size, size * 8 / one_way_us / 1e3, "Gbit/s"))
        return rows


def wait_for_listener(port, process):
    """Waits until a process listens there; a connection would be taken for the client."""
    for _ in range(500):
        for table in ("/proc/net/tcp", "/proc/net/tcp6"):
            for line in pathlib.Path(table).read_text().splitlines()[1:]:
                fields = line.split()
                if fields[3] == "0A" and int(fields[1].rpartition(":")[2], 16) == port:
                    return
        if process.poll() is not None:
            raise ValueError(f"fi_pingpong's server gave {process.returncode}")
        time.sleep(0.01)
    raise ValueError("fi_pingpong's server does not listen")
