"""The table, the summary and the plot of ddt."""
from ddtbench.rounds import geometric_mean
from peers import sheet

FAMILIES = [("WRF_", "WRF"), ("MILC", "MILC"), ("NAS_LU", "NAS LU"), ("NAS_MG", "NAS MG"), ("LAMMPS", "LAMMPS"),
            ("SPECFEM3D", "SPECFEM3D"), ("FFT2", "FFT"), ("cube_", "cube faces"), ("vector_", "vectors"), ("contiguous", "contiguous")]
HEADER = ["pattern", "bytes", "tcad us", "Open MPI", "MPICH", "Open MPI + UCX", "packing", "x MPI", "x best", "regret", "starts", "placement",
          "way"]
COLUMNS = ["pattern", "bytes", "ours_us", "openmpi_us", "mpich_us", "openmpi_ucx_us", "best_manual_us", "times_mpi", "times_best",
           "regret", "starts", "placement", "way"]
LEFT = {0, HEADER.index("placement"), HEADER.index("way")}
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
    return "\n".join("  ".join(text.ljust(width) if i in LEFT else text.rjust(width)
                               for i, (text, width) in enumerate(zip(line, widths))).rstrip() for line in cells)


def ratios(rows, column, least_bytes=0):
    return [row[column] for row in rows if row[column] is not None and row["bytes"] >= least_bytes]


def mean_line(rows, column, against):
    values = ratios(rows, column)
    if not values:
        return f"against {against}: nothing to compare"
    return f"against {against}: {geometric_mean(values):.2f} times faster (geometric mean of {len(values)} patterns)"


def regret_line(rows):
    """The plans' choices by trial, compared with the best forced copy mode."""
    values = sorted(ratios(rows, "regret"))
    if not values:
        return "regret: not measured (--regret)"
    worst = max((row for row in rows if row["regret"]), key=lambda row: row["regret"])
    return (f"regret, tuned against the best forced copy mode: median {values[len(values) // 2]:.2f}, "
            f"{sum(value > 1.05 for value in values)} of {len(values)} above 1.05, worst {worst['regret']:.2f} "
            f"({worst['pattern']} {worst['bytes']}); starts until settled: at most {max(ratios(rows, 'starts'))}")


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
    """[(placement, its rows)] of the placements that occurred; where the processors moved, nothing can be compared."""
    found = [(place, [row for row in rows if row["placement"] == place]) for place in ("near", "far")]
    return [(place, some) for place, some in found if some]


def summary(rows):
    """Separately for each placement: a mean over both would depend on how often the processors were far apart."""
    return "\n\n".join("\n".join([
        f"{place}:",
        mean_line(some, "times_mpi", "the better of Open MPI and MPICH with datatypes"),
        mean_line(some, "times_best", "the best of all peers, datatypes or packing"),
        counts_line(some), regret_line(some), contiguous_line(some), faces_line(some)]) for place, some in by_placement(rows)) or "nothing to compare"


# ---- plot

def points(rows, column, prefix):
    return "".join(f"{row['bytes']} {row[column]}\n" for row in rows if row["pattern"].startswith(prefix) and row[column])


def panel(rows, column, title, left, bottom, height):
    """At this position on the sheet."""
    data, plots = [], []
    for number, (prefix, name) in enumerate(FAMILIES):
        found = points(rows, column, prefix)
        if found:
            data.append(f"${column}{number} << EOD\n{found}EOD\n")
            plots.append(f"${column}{number} using 1:2 with points ps 0.9 lw 1.5 {sheet.style(number)} title {sheet.quoted(name)}")
    lines = f"1 with lines lw 2 lc rgb '{sheet.GREY}' notitle, 1.2 with lines dt 2 lc rgb '{sheet.GREY}' title '1.2 times'"
    place = (f"set title {sheet.quoted(title)}\nset lmargin at screen {left}\nset rmargin at screen {left + 0.36:.2f}\n"
             f"set bmargin at screen {bottom:.3f}\nset tmargin at screen {bottom + height:.3f}\n"
             f"set yrange {sheet.log_range(ratios(rows, column), 0.8, 1.6)}\n")
    return "".join(data) + place + "plot " + ", ".join([lines] + plots) + "\n"


def plot(rows, path):
    """How many times as fast as the peers, by size, both scales logarithmic; a row of panels for each placement."""
    placements = by_placement(rows)
    height = 560 * len(placements) + 30
    step, foot = 560 / height, 30 / height
    script = sheet.begin(path, 1300, height) + (
        "set key noenhanced\n"
        f"set xtics ({', '.join(TICKS)})\nset xlabel 'bytes'\nset xrange [4:2e7]\n"
        "set ytics (0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 4, 8, 16, 32, 64)\nset multiplot\n")
    panels = []
    for number, (place, some) in enumerate(placements):
        where = (foot + (len(placements) - 1 - number + 0.11) * step, 0.81 * step)
        panels.append("set key off\nset ylabel 'times faster'\n" +
                      panel(some, "times_mpi", f"{place}: against the better of Open MPI and MPICH, datatypes", 0.07, *where))
        panels.append("set key outside right\nunset ylabel\n" +
                      panel(some, "times_best", f"{place}: against the best of all peers, datatypes or packing", 0.49, *where))
    sheet.draw(script, panels)
