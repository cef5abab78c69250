"""How many lines of production code each crate has, comments and blank lines included.

`production_lines.py [BEFORE [AFTER]]`: two commits, or "." for the files here.
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


def lines_by_crate(commit):
    lines = collections.Counter()
    for name, file in production(files(commit)).items():
        lines[SOURCE.match(name).group(1)] += file.lines
    return lines


def main():
    commits = (sys.argv[1:] + ["5602829", "."][len(sys.argv) - 1:])[:2]
    before, after = map(lines_by_crate, commits)
    print(f"{'':12}{commits[0]:>10}{commits[1]:>10}{'change':>8}{'share':>7}")
    for crate in sorted(before | after, key=lambda crate: -after[crate]):
        print(f"{crate:12}{before[crate]:10}{after[crate]:10}{after[crate] - before[crate]:+8}"
              f"{100 * after[crate] / after.total():6.1f}%")
    print(f"{'total':12}{before.total():10}{after.total():10}{after.total() - before.total():+8}")
    crate, lines = after.most_common(1)[0]
    print(f"largest crate: {crate}, {100 * lines / after.total():.1f} % (at most 22 %)")


main()
