"""What the comparing scripts share: options, a cluster while they measure, rounds, and what they leave behind."""
import argparse
import contextlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile

from peers import sheet
from peers.launch import ROOT, Skip, end_on_signal, run

OUT = ROOT / "tests" / "bench" / "out"


def path(text):
    return pathlib.Path(text).resolve()


def parser(doc, *more, rounds="10"):
    """The options of all scripts; more: "alone" and "out" are for some."""
    made = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--build", type=path, default=ROOT / "build", help="the build directory (build/)")
    made.add_argument("--json", type=path, metavar="FILE", help="write the rows to this file, one JSON object per line")
    made.add_argument("--rounds", type=int, help=f"number of rounds ({rounds})")
    if "alone" in more:
        made.add_argument("--alone", action="store_true", help="only tcad, without the peers")
    if "out" in more:
        made.add_argument("--out", type=path, default=OUT, help="directory for programs and results (tests/bench/out)")
    return made


def parse(made, rounds=10, quick_rounds=None):
    """The options, with this number of rounds unless they say it. From now on the script ends its child processes, too."""
    options = made.parse_args()
    options.rounds = options.rounds or (quick_rounds if quick_rounds and options.quick else rounds)
    end_on_signal()
    getattr(options, "out", OUT).mkdir(parents=True, exist_ok=True)
    return options


def required(make, *arguments):
    """Without tcad's programs there is nothing to compare with."""
    try:
        return make(*arguments)
    except Skip as reason:
        sys.exit(str(reason))


def available(skipped, make, each):
    """make(*words) for each words, unless it is not installed; skipped gets the reasons."""
    found = []
    for words in each:
        try:
            found.append(make(*words))
        except Skip as reason:
            skipped.append(str(reason))
    return found


@contextlib.contextmanager
def up(*clusters):
    """Clusters that are up meanwhile, in a directory of their own; each run makes its own trials."""
    with tempfile.TemporaryDirectory(prefix="tca-bench-") as scratch:
        os.environ["TCA_CLUSTER_DIR"] = scratch + "/cluster"
        os.environ["TCA_WISDOM"] = "none"
        try:
            for cluster in clusters:
                cluster.up()
            yield scratch
        finally:
            for cluster in clusters:
                cluster.down()


@contextlib.contextmanager
def may_fail(name, number, skipped, ours):
    """A peer that fails in a round is left out of it; tcad's program must not fail."""
    try:
        yield
    except (ValueError, KeyError, OSError, subprocess.SubprocessError) as error:
        if ours:
            raise
        skipped.append(f"{name}, round {number + 1}: {error}")


def rounds_of(programs, options, skipped, *arguments):
    """Starts each program (name, command, environment) once in each round, in turn: round, program and row for each line of JSON
    that it prints. The first of them is tcad's."""
    for number in range(options.rounds):
        for program in programs:
            rows = []
            with may_fail(program.name, number, skipped, program is programs[0]):
                rows = [json.loads(line) for line in run(program.command + list(arguments), env=program.environment).splitlines()]
            yield from ((number, program, row) for row in rows)
        done(number, options)


def done(number, options):
    print(f"round {number + 1} of {options.rounds} done", file=sys.stderr, flush=True)


def finish(rows, skipped, options, *paths, note=None):
    """Says where and when this was (note: and how), and what is missing; writes the rows."""
    if note:
        print(f"\n{sheet.origin()}\n{note}")
    for reason in skipped:
        print(f"skipped: {reason}")
    for file in filter(None, [*paths, options.json]):
        file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="ascii")
