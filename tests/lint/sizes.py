"""Reports files beyond 400 lines and functions beyond 60, for a reader to judge. Refuses nothing."""

import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
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
    for name in sorted(tracked):
        if (ROOT / name).exists():
            for key, lines in too_large(ROOT / name):
                print(f"{key}: {lines} lines")


main()
