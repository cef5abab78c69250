"""Promises: every test that docs/threat-model.md names exists."""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = ["crates", "format", "libramson", "tests"]
# A sentence in snake case: three words at least, so that no name of a file or variable is taken for one.
NAMED = re.compile(r"`(\w+(?:_\w+){2,})`")


def main():
    defined = set()
    for folder in FOLDERS:
        for path in (ROOT / folder).rglob("*.rs"):
            defined.update(re.findall(r"#\[test\]\n(?:\s*(?:#\[.*\]|//.*)\n)*\s*fn (\w+)\(", path.read_text()))
    table = [line for line in (ROOT / "docs/threat-model.md").read_text().splitlines() if line.startswith("|")]
    missing = {name for line in table for name in NAMED.findall(line) if name not in defined}
    if missing:
        sys.exit("docs/threat-model.md names tests that do not exist:\n  " + "\n  ".join(sorted(missing)))


main()
