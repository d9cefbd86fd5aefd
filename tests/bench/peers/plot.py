"""The plot of compare: time of one way over size, on one node and between nodes."""
from peers import sheet
from peers.programs import NET, NODE

WIDTH, HEIGHT = 1100, 540
TICKS = [f"'{name}' {size}" for name, size in (("8", 8), ("64", 64), ("512", 512), ("4 K", 4096), ("32 K", 32768),
                                               ("256 K", 262144), ("2 M", 2097152))]
ORDER = ["tcad", "Open MPI", "MPICH", "fi_pingpong", "tcad, daemon", "tcad, TLS"]  # one look in both panels


def series(rows, place):
    """{name: [(bytes, us)]}, tcad first."""
    found = {}
    for row in rows:
        if row["work"] == f"{place}: one way":
            found.setdefault("tcad", {})[row["bytes"]] = row["ours"]
            if row["peer"] not in ("cache line", "bare stores"):
                found.setdefault(row["peer"], {})[row["bytes"]] = row["theirs"]
    return {name: sorted(points.items()) for name, points in found.items()}


def look(name):
    """"Open MPI, TCP" has the style of "Open MPI"."""
    base = name if name in ORDER else name.split(",")[0]
    return sheet.style(ORDER.index(base) if base in ORDER else len(ORDER))


def panel(number, title, lines):
    script, data = [], []
    for n, (name, points) in enumerate(lines.items()):
        data.append(f"$d{number}_{n} << EOD\n" + "".join(f"{x} {y}\n" for x, y in points) + "EOD\n")
        width = 3 if name == "tcad" else 1.5
        script.append(f"$d{number}_{n} using 1:2 with linespoints lw {width} ps 0.7 {look(name)} title {sheet.quoted(name)}")
    times = [us for points in lines.values() for _, us in points]
    sizes = [size for points in lines.values() for size, _ in points]
    return ("".join(data) + f"set title {sheet.quoted(title)}\nset xrange {sheet.log_range(sizes, 4, 16)}\n"
            f"set yrange {sheet.log_range(times, min(times), max(times))}\nplot " + ", ".join(script) + "\n")


def plot(rows, out):
    panels = [(place, lines) for place in (NODE, NET) if (lines := series(rows, place))]
    path = out / "compare.svg"
    script = sheet.begin(path, WIDTH, HEIGHT) + (
        "set key at graph 0.5,-0.19 center top horizontal maxrows 2 noenhanced\n"
        f"set xtics ({', '.join(TICKS)})\n"
        "set xlabel 'bytes'\nset ylabel 'one way, microseconds'\n"
        f"set multiplot layout 1,{len(panels)} margins 0.095,0.98,0.29,0.92 spacing 0.12\n")
    sheet.draw(script, [panel(n, *each) for n, each in enumerate(panels)])
    return path
