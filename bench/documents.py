"""The documents that show what is measured here: each table stands between the command that prints it and an end mark."""

import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[1]
COST = ROOT / "docs/internals/cost.md"
WEB = ROOT / "docs/internals/web.md"
COMMAND = "bench/run --markdown"
END = "<!-- end -->"


def begin(names):
    """The mark before the table of these benchmarks; of none: before those of every profiler."""
    return f"<!-- {' '.join([COMMAND, *names])} -->"


def of(names):
    """The document that shows these benchmarks."""
    return WEB if names == ["web"] else COST


def shown(document, names):
    """The text between the marks; None if they are not there."""
    _, mark, after = document.read_text().partition(begin(names) + "\n")
    text, end, _ = after.partition(END)
    return text.strip() if mark and end else None


def write(document, names, text):
    """Puts the text there; at the document's end if it has none yet."""
    before, mark, after = document.read_text().partition(begin(names) + "\n")
    _, end, after = after.partition(END + "\n")
    if not (mark and end):
        before, after = before.rstrip() + "\n\n", ""
    document.write_text(f"{before}{begin(names)}\n{text.strip()}\n{END}\n{after}")
