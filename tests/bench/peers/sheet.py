"""Shared by all plots: colours that everyone can distinguish, and a line that states date, place and subject."""
import datetime
import pathlib
import platform
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[3]
# Dark enough for thin lines on white; each also has a point shape of its own.
COLORS = ["#0072b2", "#d55e00", "#008a64", "#aa4499", "#332288", "#882255", "#7a6a00", "#202124", "#117733", "#b5475d"]
POINTS = [7, 5, 9, 13, 11, 4, 6, 8, 12, 10]
GREY = "#767676"


def described():
    """The lines about the processors."""
    try:
        return pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []


def processors():
    return sum(line.startswith("processor") for line in described()) or 1


def processor():
    """Model and number of processors."""
    models = [line.split(":", 1)[1].strip() for line in described() if line.startswith("model name")]
    return f"{processors()} x {' '.join((models or [platform.machine() or 'unknown processor'])[0].split())}"


def git(*words):
    try:
        return subprocess.run(["git", "-C", ROOT, *words], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True).stdout.decode().strip()
    except (OSError, subprocess.SubprocessError):
        return ""


def commit():
    """The commit of the sources, not of the build."""
    name = git("rev-parse", "--short=10", "HEAD")
    if not name:
        return "unknown commit"
    return f"commit {name}{' with changes' if git('status', '--porcelain', '--untracked-files=no') else ''}"


def origin():
    """One line: date, processor, commit."""
    now = datetime.datetime.now(datetime.timezone.utc)
    return f"{now:%Y-%m-%d %H:%M} UTC, {processor()}, {commit()}"


def quoted(text):
    """As gnuplot has it."""
    return "'" + text.replace("'", "''") + "'"


def style(number):
    """The style of a series: "lc ... pt ..."."""
    return f"lc rgb '{COLORS[number % len(COLORS)]}' pt {POINTS[number % len(POINTS)]}"


def log_range(values, low, high):
    """A logarithmic axis that includes all values, and at least low to high, with a margin."""
    return f"[{min([low, *(value * 0.7 for value in values)]):g}:{max([high, *(value * 1.4 for value in values)]):g}]"


def begin(path, width, height):
    """The sheet, with its origin at the bottom. Panels leave the lowest 30 pixels free."""
    return (f"set terminal svg size {width},{height} font 'sans,13' background 'white'\nset output {quoted(str(path))}\n"
            f"set label 1000 {quoted(origin())} at screen 0.01,{14 / height:.4f} left noenhanced font ',11' textcolor rgb '{GREY}'\n"
            "set logscale xy\nset grid lc rgb '#dddddd'\nset border lc rgb '#202124'\n")


def draw(head, panels):
    """`head` is shared by all panels; a label that each would repeat is drawn with the first."""
    first, *others = panels
    script = head + first + "unset label 1000\n" + "".join(others) + "unset multiplot\n"
    subprocess.run(["gnuplot"], input=script.encode(), check=True)
