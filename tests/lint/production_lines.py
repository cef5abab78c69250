"""Lines of production code by crate.

`production_lines.py [--code] [BEFORE [AFTER]]`: two commits, or "." for the files here. `--code` leaves out comments and blank lines.
"""

import collections
import io
import re
import sys
import tarfile

from rust_source import ROOT, git, production

SOURCE = re.compile(r"(?:crates/)?([\w-]+)/src/.*\.rs$")
NOT_THE_PRODUCT = ("tests", "fuzz", "bench")


def files(commit):
    """The text of each source of the product at a commit, by path."""
    if commit == ".":
        listed = git("ls-files", "--cached", "--others", "--exclude-standard", "*.rs").decode().split()
        read = {name: (ROOT / name).read_text() for name in listed if (ROOT / name).exists()}
    else:
        archive = tarfile.open(fileobj=io.BytesIO(git("archive", commit)))
        read = {member.name: archive.extractfile(member).read().decode()
                for member in archive if member.isfile() and member.name.endswith(".rs")}
    return {name: text for name, text in read.items()
            if SOURCE.match(name) and not name.startswith(NOT_THE_PRODUCT)}


def lines_by_crate(commit, is_code_only):
    lines = collections.Counter()
    for name, file in production(files(commit)).items():
        code = sum(1 for line in file.code.splitlines() if line.strip())
        lines[SOURCE.match(name).group(1)] += code if is_code_only else file.lines
    return lines


def main():
    arguments = [argument for argument in sys.argv[1:] if argument != "--code"]
    commits = (arguments + ["5602829", "."][len(arguments):])[:2]
    before, after = (lines_by_crate(commit, "--code" in sys.argv) for commit in commits)
    print(f"{'':12}{commits[0]:>10}{commits[1]:>10}{'change':>8}{'share':>7}")
    for crate in sorted(before | after, key=lambda crate: -after[crate]):
        print(f"{crate:12}{before[crate]:10}{after[crate]:10}{after[crate] - before[crate]:+8}"
              f"{100 * after[crate] / after.total():6.1f}%")
    print(f"{'total':12}{before.total():10}{after.total():10}{after.total() - before.total():+8}")
    crate, lines = after.most_common(1)[0]
    print(f"largest crate: {crate}, {100 * lines / after.total():.1f}% (at most 22%)")


main()
