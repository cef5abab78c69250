"""Costs: the table of every profiler in docs/internals/cost.md is one that `bench/run --markdown` prints, as are the tables of docs/internals/cost.md that say so."""

import pathlib
import re
import sys

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))

import bench_cost  # noqa: E402
import documents  # noqa: E402
from measure import Series  # noqa: E402

SENTENCE = re.compile(r"Measured with `bench/run --markdown((?: [a-z]+)*)( --quick)?` at commit [0-9a-f]{7,40}, on .*\.")
SECTION = re.compile(r"<!-- bench/run --markdown(?: ([a-z ]+))? -->\n")
NUMBER = re.compile(r"[+−-]?\d[\d,.]*")


def shape(cell):
    """A cell without its numbers; a profiler that was not installed has none."""
    return NUMBER.sub("#", cell)


def printed():
    """The shapes of the rows as the command prints them: of made-up measurements, one and several, through its own code."""
    rows = []
    for what, _, unit, percent_digits in bench_cost.ROWS:
        shapes = []
        for values in ([2.0, 3.0], [2.0]):
            variants = ["plain", *{name for pair in bench_cost.BASE.items() for name in pair}]
            cells = bench_cost.cells({name: Series(values) for name in variants}, unit, percent_digits)
            shapes.append([shape(cell) for cell in cells])
        rows.append((what, [set(alternatives) | {bench_cost.NONE} for alternatives in zip(*shapes)]))
    return rows


def table_of(text):
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")]


def wrong_in(text):
    """Faults of a table that is not as the command prints it."""
    table = table_of(text)
    if not SENTENCE.match(text):
        yield "it does not begin with the sentence that says what was measured where"
    if not table or table[0] != bench_cost.HEAD:
        yield f"its columns are not {', '.join(bench_cost.HEAD)}"
        return
    rows = table[2:]
    if [row[0] for row in rows] != [what for what, _ in printed()]:
        yield "its rows are not those of bench/bench_cost.py"
        return
    for row, (what, allowed) in zip(rows, printed()):
        for cell, shapes in zip(row[1:], allowed, strict=True):
            if shape(cell) not in shapes:
                yield f"{what}: {cell}"


def main():
    offences = []
    text = documents.shown(documents.COST, [])
    if text is None:
        offences.append(f"docs/internals/cost.md: no {documents.begin([])} … {documents.END}")
    else:
        offences += [f"docs/internals/cost.md: {what}" for what in wrong_in(text)]
    for names in SECTION.findall(documents.COST.read_text()):
        measured = SENTENCE.match(documents.shown(documents.COST, names.split()) or "")
        if not measured or measured.group(1).strip() != names:
            offences.append(f"docs/internals/cost.md: {documents.begin(names.split())}: not what that command prints")
    if offences:
        sys.exit("costs: \"bench/run --markdown --write\" measures, and writes the table\n  " + "\n  ".join(offences))


main()
