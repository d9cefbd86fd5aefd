"""tidy.py: removes paragraph macros of a manual page (standard input) that begin no paragraph, which mandoc -T lint reports."""

import sys

PARAGRAPH = (".P", ".PP")
HEADING = (".SH", ".SS", ".TH")


def macro(line):
    return line.split(" ", 1)[0]


def tidy(page):
    out = []
    owed = False  # a paragraph begins, if text comes
    for line in page.splitlines():
        name = macro(line)
        if name in PARAGRAPH:
            owed = True
            continue
        if name != ".RE":  # before it, the paragraph would be empty
            if owed and name not in HEADING and macro(out[-1]) not in HEADING:
                out.append(".sp" if name == ".RS" else ".PP")
            owed = False
        out.append(line)
    return "\n".join(out) + "\n"


if __name__ == "__main__":
    sys.stdout.write(tidy(sys.stdin.read()))
