"""The plot of compare: time of one way over size, on one node and between nodes."""
import subprocess

from peers.programs import NET, NODE

WIDTH, HEIGHT = 1100, 480
TICKS = [f"'{name}' {size}" for name, size in (("8", 8), ("64", 64), ("512", 512), ("4 K", 4096), ("32 K", 32768),
                                               ("256 K", 262144), ("2 M", 2097152))]


def series(rows, place):
    """{name: [(bytes, us)]}, ours first."""
    found = {}
    for row in rows:
        if row["work"] == f"{place}: one way":
            found.setdefault("tcad", {})[row["bytes"]] = row["ours"]
            if row["peer"] != "cache line":
                found.setdefault(row["peer"], {})[row["bytes"]] = row["theirs"]
    return {name: sorted(points.items()) for name, points in found.items()}


def panel(title, lines):
    script, data = [], []
    for number, (name, points) in enumerate(lines.items()):
        data.append(f"${'d' if title == NODE else 'n'}{number} << EOD\n" + "".join(f"{x} {y}\n" for x, y in points) + "EOD\n")
        width = 3 if name == "tcad" else 1.5
        script.append(f"${'d' if title == NODE else 'n'}{number} using 1:2 with linespoints lw {width} pt 7 ps 0.5 "
                      f"lc {number + 1} title '{name}'")
    return "".join(data) + f"set title '{title}'\nplot " + ", ".join(script) + "\n"


def plot(rows, out):
    panels = [(place, lines) for place in (NODE, NET) if (lines := series(rows, place))]
    path = out / "compare.svg"
    script = (f"set terminal svg size {WIDTH},{HEIGHT} font 'sans,13' background 'white'\nset output '{path}'\n"
              "set logscale xy\nset grid lc rgb '#dddddd'\nset key top left noenhanced\n"
              f"set xtics ({', '.join(TICKS)})\n"
              "set xlabel 'bytes'\nset ylabel 'one way, microseconds'\n"
              f"set multiplot layout 1,{max(1, len(panels))}\n")
    script += "".join(panel(*each) for each in panels) + "unset multiplot\n"
    subprocess.run(["gnuplot"], input=script.encode(), check=True)
    return path
