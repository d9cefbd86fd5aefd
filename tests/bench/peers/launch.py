"""How programs are run for comparisons: tcad's on an emulated cluster, MPI's by Open MPI or MPICH, on pinned processors."""
import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import threading

ROOT = pathlib.Path(__file__).resolve().parents[3]
DAEMON = ["daemon/tcad", "tools/tca-peach2", "tools/tca-cluster", "tools/tcactl"]

PATIENCE_S = 120

MPI_NAMES = {"openmpi": "Open MPI", "mpich": "MPICH"}
MPI_PAIRS = (("openmpi", None), ("mpich", None), ("openmpi", "ucx"))  # on one node
MPI_TRANSPORTS = {
    ("openmpi", "ucx"): ["--mca", "pml", "ucx", "--mca", "pml_ucx_tls", "any", "--mca", "pml_ucx_devices", "any"],
    ("openmpi", "tcp"): ["--mca", "pml", "ob1", "--mca", "btl", "self,tcp", "--mca", "btl_tcp_if_include", "lo"],
}


def end_on_signal():
    """A script that is asked to end also ends its child processes: its `finally` blocks run."""
    def leave(number, frame):
        raise SystemExit(128 + number)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, leave)


class Skip(Exception):
    """Not installed, or cannot be built."""


def end(process):
    """With all its child processes: mpiexec leaves its ranks behind when it is killed."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=5)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def failure(command, process, errors):
    text = errors.decode(errors="replace").strip().splitlines()
    return ValueError(f"{os.path.basename(command[0])} gave {process.returncode}: {' / '.join(text[-3:])}")


def run(command, **more):
    """Its output."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True, **more) as process:
        try:
            out, errors = process.communicate(timeout=PATIENCE_S)
        except BaseException:
            end(process)
            raise
    if process.returncode:
        raise failure(command, process, errors)
    return out.decode()


def stream(command, patience_s, **more):
    """Its output, line by line, as it comes."""
    errors = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True, **more) as process:
        reader = threading.Thread(target=lambda: errors.append(process.stderr.read()))
        timer = threading.Timer(patience_s, end, [process])
        reader.start()
        timer.start()
        try:
            yield from (line.decode() for line in process.stdout)
            process.wait()
        finally:
            timer.cancel()
            end(process)
            reader.join()
    if process.returncode:
        raise failure(command, process, errors[0])


def mpi_environment(mpi, transport=None):
    tcp = {"UCX_TLS": "tcp,self", "UCX_NET_DEVICES": "lo"} if (mpi, transport) == ("mpich", "tcp") else {}
    return dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", HWLOC_COMPONENTS="-gl", **tcp)


def mpi_command(mpi, transport=None, ranks=2):
    """The command in front of the program, with a processor for each rank; transport: None (its own choice), "ucx" or "tcp"."""
    starter = f"mpiexec.{mpi}"
    if not shutil.which(starter):
        raise Skip(f"{MPI_NAMES[mpi]}: {starter} is not there (tools/setup --all)")
    if mpi == "openmpi":
        return [starter, "-np", str(ranks), "--bind-to", "core", "--map-by", "core"] + MPI_TRANSPORTS.get((mpi, transport), [])
    return [starter, "-n", str(ranks), "-bind-to", "core", "-map-by", "core"]


def mpi_name(mpi, transport):
    return MPI_NAMES[mpi] + (f" + {transport.upper()}" if transport else "")


def mpi_compile(mpi, program, sources, *flags):
    """The path of the program; flags after the sources."""
    compiler = f"mpicc.{mpi}"
    if not shutil.which(compiler):
        raise Skip(f"{MPI_NAMES[mpi]}: {compiler} is not there (tools/setup --all)")
    # MPICH's header makes gcc take MPI_STATUSES_IGNORE for an array of length 0
    command = [compiler, "-std=gnu17", "-D_GNU_SOURCE", "-Wno-stringop-overflow", f"-I{ROOT}", "-o", program, *sources, *flags]
    try:
        run(list(map(str, command)))
    except (ValueError, subprocess.SubprocessError) as error:
        raise Skip(f"{MPI_NAMES[mpi]}: {error}") from error
    return str(program)


def build_programs(build, *programs):
    """Builds these (paths in the build directory) and all that a cluster needs; configures the directory if necessary."""
    try:
        if not (build / "build.ninja").exists():
            print(f"configuring {build}", file=sys.stderr, flush=True)
            subprocess.run(["meson", "setup", "--buildtype=release", build, ROOT], stdout=subprocess.DEVNULL, check=True)
        with subprocess.Popen(["ninja", "-C", build, *DAEMON, *programs], stdout=subprocess.PIPE, text=True) as ninja:
            output = []
            for line in ninja.stdout:
                output.append(line)
                if sys.stderr.isatty():
                    print(f"\r\033[K{line.rstrip()[:78]}", end="", file=sys.stderr, flush=True)
        if sys.stderr.isatty():
            print("\r\033[K", end="", file=sys.stderr, flush=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise Skip(f"tcad: cannot be built: {error} (tools/setup)") from error
    if ninja.returncode:
        raise Skip(f"tcad: cannot be built in {build}:\n{''.join(output[-20:])}")


class Cluster:
    """An emulated cluster, in a directory that the caller has put into TCA_CLUSTER_DIR. programs: to run on it, paths in the
    build directory, which are built first. encrypts: also between nodes, where all peers send in clear."""

    def __init__(self, build, nodes, *programs, encrypts=False):
        self.program = str(build / "tools" / "tca-cluster")
        self.nodes = nodes
        self.security = "tls" if encrypts else "plain"
        build_programs(build, *programs)

    def up(self):
        run([self.program, "up", "-q", "-n", str(self.nodes), "-o", f"rails.tcp_security={self.security}"])

    def down(self):
        subprocess.run([self.program, "down", "-q"], check=False)

    def command(self, nodes, per_node, *options):
        """The command in front of the program."""
        return [self.program, "run", "-q", "-n", str(nodes), "--ppn", str(per_node), *options, "--"]
