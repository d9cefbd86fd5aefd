"""The table, the summary and the plot of ddt."""
import subprocess

from ddtbench.rounds import geometric_mean

FAMILIES = [("WRF_", "WRF"), ("MILC", "MILC"), ("NAS_LU", "NAS LU"), ("NAS_MG", "NAS MG"), ("LAMMPS", "LAMMPS"),
            ("SPECFEM3D", "SPECFEM3D"), ("FFT2", "FFT"), ("cube_", "cube faces"), ("vector_", "vectors"), ("contiguous", "contiguous")]
HEADER = ["pattern", "bytes", "tcad us", "Open MPI", "MPICH", "Open MPI + UCX", "packing", "x MPI", "x best", "placement", "way"]
COLUMNS = ["pattern", "bytes", "ours_us", "openmpi_us", "mpich_us", "openmpi_ucx_us", "best_manual_us", "times_mpi", "times_best",
           "placement", "way"]
PLACEMENTS = ["near", "far", "moved"]
TICKS = [f"'{name}' {size}" for name, size in (("8", 8), ("128", 128), ("2 K", 2048), ("32 K", 32768), ("512 K", 524288),
                                               ("8 M", 8388608))]


def cell(value):
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.2f}" if value < 100 else f"{value:.0f}"
    return str(value)


def table(rows):
    cells = [HEADER] + [[cell(row[column]) for column in COLUMNS] for row in rows]
    widths = [max(len(line[i]) for line in cells) for i in range(len(HEADER))]
    return "\n".join("  ".join(text.ljust(width) if i in (0, 9, 10) else text.rjust(width)
                               for i, (text, width) in enumerate(zip(line, widths))).rstrip() for line in cells)


def ratios(rows, column, least_bytes=0):
    return [row[column] for row in rows if row[column] is not None and row["bytes"] >= least_bytes]


def mean_line(rows, column, against):
    values = ratios(rows, column)
    if not values:
        return f"against {against}: nothing to compare"
    return f"against {against}: {geometric_mean(values):.2f} times faster (geometric mean of {len(values)} patterns)"


def counts_line(rows):
    all_of, from_512 = ratios(rows, "times_best"), ratios(rows, "times_best", 512)
    slower = {bar: sum(value < bar for value in from_512) for bar in (1.0, 1.2)}
    return (f"of {len(from_512)} patterns from 512 bytes on, {slower[1.0]} are below 1.0 and {slower[1.2]} below 1.2 times the best of "
            f"all peers; of all {len(all_of)}: {sum(v < 1 for v in all_of)} and {sum(v < 1.2 for v in all_of)}")


def contiguous_line(rows):
    found = [f"{row['bytes']} bytes {row['times_mpi']:.2f}" for row in rows
             if row["pattern"] == "contiguous" and row["bytes"] in (8, 65536, 1048576) and row["times_mpi"]]
    return "contiguous, times the better of Open MPI and MPICH: " + (", ".join(found) or "not measured")


def faces_line(rows):
    """Faces i are contiguous, j block-stride, k single doubles; of one size."""
    ours = {(row["pattern"], row["bytes"]): row["ours_us"] for row in rows if row["ours_us"]}
    found = [f"{size} bytes {ours['cube_j', size] / us:.2f}" for (name, size), us in ours.items()
             if name == "cube_i" and ("cube_j", size) in ours]
    return "block-stride face j, times the time of contiguous face i: " + (", ".join(found) or "not measured")


def by_placement(rows):
    """[(placement, its rows)], of those that there are; where the processors moved nothing can be compared."""
    found = [(place, [row for row in rows if row["placement"] == place]) for place in ("near", "far")]
    return [(place, some) for place, some in found if some]


def summary(rows):
    """Of each placement by itself: a mean over both would say how often the processors were far."""
    return "\n\n".join("\n".join([
        f"{place}:",
        mean_line(some, "times_mpi", "the better of Open MPI and MPICH with datatypes"),
        mean_line(some, "times_best", "the best of all peers, datatypes or packing"),
        counts_line(some), contiguous_line(some), faces_line(some)]) for place, some in by_placement(rows)) or "nothing to compare"


# ---- plot

def points(rows, column, prefix):
    return "".join(f"{row['bytes']} {row[column]}\n" for row in rows if row["pattern"].startswith(prefix) and row[column])


def panel(rows, column, title, left, bottom, height):
    """On the sheet from `left` and `bottom` on."""
    data, plots = [], []
    for number, (prefix, name) in enumerate(FAMILIES):
        found = points(rows, column, prefix)
        if found:
            data.append(f"${column}{number} << EOD\n{found}EOD\n")
            plots.append(f"${column}{number} using 1:2 with points pt {number + 4} ps 0.8 lw 1.5 lc {number + 1} title '{name}'")
    lines = "1 with lines lw 2 lc rgb '#888888' notitle, 1.2 with lines dt 2 lc rgb '#888888' notitle"
    place = (f"set title '{title}'\nset lmargin at screen {left}\nset rmargin at screen {left + 0.37:.2f}\n"
             f"set bmargin at screen {bottom:.3f}\nset tmargin at screen {bottom + height:.3f}\n")
    return "".join(data) + place + "plot " + ", ".join([lines] + plots) + "\n"


def plot(rows, path):
    """How many times faster than the peers, by size, both scales logarithmic; a row of panels for each placement."""
    placements = by_placement(rows)
    step = 1 / len(placements)
    script = (f"set terminal svg size 1300,{560 * len(placements)} font 'sans,13' background 'white'\nset output '{path}'\n"
              "set logscale xy\nset grid lc rgb '#dddddd'\nset key noenhanced\n"
              f"set xtics ({', '.join(TICKS)})\nset xlabel 'bytes'\nset xrange [4:2e7]\n"
              "set ytics (0.1, 0.2, 0.5, 1, 1.2, 2, 4, 8, 16, 32)\nset yrange [*<0.8:1.6<*]\nset multiplot\n")
    for number, (place, some) in enumerate(placements):
        where = ((len(placements) - 1 - number + 0.11) * step, 0.81 * step)
        script += "set key off\nset ylabel 'times faster'\n"
        script += panel(some, "times_mpi", f"{place}: against the better of Open MPI and MPICH, datatypes", 0.05, *where)
        script += "set key outside right\nunset ylabel\n"
        script += panel(some, "times_best", f"{place}: against the best of all peers, datatypes or packing", 0.48, *where)
    subprocess.run(["gnuplot"], input=(script + "unset multiplot\n").encode(), check=True)
