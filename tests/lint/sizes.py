"""The size ratchet: files beyond 400 lines and functions beyond 60 may exist where sizes.txt names them, and may not grow.

`python3 tests/lint/sizes.py --update` rewrites sizes.txt; it never raises a number that is there.
"""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
LEDGER = pathlib.Path(__file__).with_name("sizes.txt")
MOST_LINES_OF_FILE = 400
MOST_LINES_OF_FUNCTION = 60
FUNCTION = re.compile(r"^(\s*)(?:pub(?:\([^)]*\))? )?(?:const )?(?:unsafe )?(?:extern \"C\" )?fn (\w+)")


def too_large(path):
    """Yields (key, lines) for what exceeds a limit in one source file."""
    lines = path.read_text().splitlines()
    name = path.relative_to(ROOT).as_posix()
    if len(lines) > MOST_LINES_OF_FILE:
        yield name, len(lines)
    if path.suffix != ".rs":
        return
    start = None
    for number, line in enumerate(lines):
        found = FUNCTION.match(line)
        if start is None and found and not line.rstrip().endswith(";"):
            start = (number, found.group(1), found.group(2))
        elif start and line == start[1] + "}":
            length = number - start[0] + 1
            if length > MOST_LINES_OF_FUNCTION:
                yield f"{name}:{start[2]}", length
            start = None
        elif start and line.rstrip().endswith("}") and number == start[0]:
            start = None


def main():
    tracked = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.rs", "*.py", "*.c", "*.cc"],
                             cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    found = {key: lines for name in sorted(tracked) if (ROOT / name).exists() for key, lines in too_large(ROOT / name)}
    allowed = {}
    if LEDGER.exists():
        for line in LEDGER.read_text().splitlines():
            lines, key = line.split(maxsplit=1)
            allowed[key] = int(lines)
    if "--update" in sys.argv:
        kept = {key: min(lines, allowed.get(key, lines)) for key, lines in found.items()}
        LEDGER.write_text("".join(f"{lines} {key}\n" for key, lines in sorted(kept.items())))
        return
    wrong = [f"{key}: {lines} lines, allowed are {allowed.get(key, 'none beyond the limit')}"
             for key, lines in found.items() if lines > allowed.get(key, 0)]
    wrong += [f"{key}: no longer too large; run tests/lint/sizes.py --update" for key in allowed if key not in found]
    if wrong:
        sys.exit("sizes:\n  " + "\n  ".join(wrong))


main()
