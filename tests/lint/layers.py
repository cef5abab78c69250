"""Layers: which crate may import which, and no circles of files or folders within a crate.

An arrow leads from a file to the file that defines what it names; a re-export only points the way.
`layers.py` prints an offence a line and fails; `layers.py --arrows CRATE` prints a crate's arrows; `layers.py --write` puts the
table into ARCHITECTURE.md.
"""

import collections
import json
import posixpath
import re
import subprocess
import sys

from arrows import Crate
from rust_source import ROOT, production

# Crates of ours that each crate may import.
MAY_IMPORT = {
    "format": "", "libramson": "format", "launch": "", "paths": "apart", "apart": "", "pclntab": "", "symbols": "apart paths pclntab", "process": "apart paths pclntab", "inject": "paths",
    "reader": "format apart", "profile": "format", "import": "apart profile", "encode": "profile", "leaks": "format profile",
    "history": "format apart paths reader profile",
    "source": "format apart paths reader profile import history symbols process",
    "follow": "format apart paths process reader source",
    "analysis": "follow format paths reader profile history leaks symbols process source",
    "control": "format apart paths reader profile process source inject",
    "fleet": "analysis follow format process profile reader source",
    "serve": "analysis control encode follow format process profile source",
    "ramson": "fleet follow format apart paths reader profile import history leaks symbols process source analysis control encode inject launch serve",
}
# Names that must not occur in these crates, in addition.
TERMINAL = ["ratatui", "crossterm", "clap", "e?print!", "e?println!", "stdout", "stderr"]
MAY_NOT_NAME = {"source": [*TERMINAL, "serde_json"], "analysis": TERMINAL, "control": ["clap"], "serve": ["ratatui", "crossterm", "clap"]}
TABLE = re.compile(r"(?<=<!-- layers -->\n).*(?=<!-- /layers -->)", re.DOTALL)
MOST_FILES_IN_CIRCLE = 3
# The hooks are assembly that calls the slow paths, which bind them: the one circle that is meant.
CALLS_SLOW_PATHS = re.compile(r"libramson/src/arch/[^/]+/hooks/")


def circles(arrows):
    """The largest sets of nodes of which each leads to each other."""
    nodes = {node for arrow in arrows for node in arrow}
    reached = {node: {end for start, end in arrows if start == node} for node in nodes}
    for middle in nodes:
        for node in nodes:
            if middle in reached[node]:
                reached[node] |= reached[middle]
    return {frozenset(other for other in reached[node] if node in reached[other])
            for node in nodes if node in reached[node]}


def back_arrows(circle, arrows):
    """A few arrows without which the circle is none: those against the order of Eades, Lin and Smyth."""
    left, order = sorted(circle), []
    while left:
        inner = [arrow for arrow in arrows if arrow[0] in left and arrow[1] in left]
        surplus = {node: sum((a == node) - (b == node) for a, b in inner) for node in left}
        order.append(max(left, key=lambda node: surplus[node]))
        left.remove(order[-1])
    rank = {node: place for place, node in enumerate(order)}
    return [arrow for arrow in arrows if set(arrow) <= circle and rank[arrow[0]] > rank[arrow[1]]]


def folder_arrows(arrows):
    """{level: {(child, child): [arrow]}}: what crosses between the children of each folder."""
    levels = collections.defaultdict(lambda: collections.defaultdict(list))
    for start, end in arrows:
        level = posixpath.commonpath([start, end])
        level = level if posixpath.splitext(level)[1] == "" else posixpath.dirname(level)
        child = lambda path: path[len(level) + 1:].split("/")[0].removesuffix(".rs")
        if child(start) != child(end):
            levels[level][child(start), child(end)].append((start, end))
    return levels


def circles_of(crate):
    """The offences inside one crate."""
    arrows = {(start, end): line for (start, end), line in crate.arrows().items()
              if not CALLS_SLOW_PATHS.match(start) or "/arch/" in end}
    for circle in circles(arrows):
        if len(circle) > MOST_FILES_IN_CIRCLE:
            for start, end in sorted(back_arrows(circle, arrows)):
                yield f"{start}:{arrows[start, end]}: → {end} closes a circle of {len(circle)} files"
    for level, between in folder_arrows(arrows).items():
        for circle in circles(between):
            folders = {node for node in circle if any(path.startswith(f"{level}/{node}/") for path in crate.files)}
            if len(folders) > 1:
                for pair in back_arrows(circle, between):
                    start, end = min(between[pair])
                    yield (f"{start}:{arrows[start, end]}: → {end} closes a circle of the folders "
                           f"{', '.join(sorted(folders))} in {level}")


def imports_of(name, package, files):
    """The offences of one crate against the table."""
    allowed = MAY_IMPORT[name].split()
    ours = {f"ramson_{crate}": crate for crate in MAY_IMPORT}
    dependencies = {dependency["name"].replace("-", "_") for dependency in package["dependencies"]
                    if dependency["kind"] != "dev"}
    banned = {crate for crate in dependencies if crate in ours and ours[crate] not in allowed}
    for crate in sorted(banned):
        yield f"{package['manifest_path'].removeprefix(f'{ROOT}/')}: {name} → {ours[crate]}"
    words = "|".join([*sorted(banned), *MAY_NOT_NAME.get(name, [])])
    for path, file in files.items() if words else ():
        for found in re.finditer(rf"(?<![\w])(?:{words})(?!\w)", file.code):
            yield f"{path}:{file.line(found.start())}: {name} → {ours.get(found.group(), found.group())}"


def table():
    """The rules, in the order of the data's way."""
    rows = ["| crate | may import of ours | may not name |", "|---|---|---|"]
    for name, allowed in MAY_IMPORT.items():
        words = ", ".join(f"`{word.replace('e?', '')}`" for word in MAY_NOT_NAME.get(name, []))
        rows.append(f"| {name} | {'all' if name == 'ramson' else allowed or 'nothing'} | {words} |")
    return "\n".join(rows) + "\n"


def main():
    document = ROOT / "ARCHITECTURE.md"
    text = document.read_text()
    current = TABLE.sub(lambda _: table(), text)
    if sys.argv[1:] == ["--write"]:
        document.write_text(current)
        return
    if current != text:
        sys.exit("layers: ARCHITECTURE.md has another table; run tests/lint/layers.py --write")
    metadata = json.loads(subprocess.run(["cargo", "metadata", "--format-version", "1", "--no-deps", "--offline"],
                                         cwd=ROOT, capture_output=True, check=True).stdout)
    offences = []
    for package in metadata["packages"]:
        folder = posixpath.dirname(package["manifest_path"]).removeprefix(f"{ROOT}/")
        name = package["name"].removeprefix("ramson-")
        if folder.startswith("tests"):
            continue
        if name not in MAY_IMPORT:
            offences.append(f"{folder}/Cargo.toml: {name} has no line in the table of tests/lint/layers.py")
            continue
        read = {str(path.relative_to(ROOT)): path.read_text() for path in (ROOT / folder / "src").rglob("*.rs")}
        files = production(read)
        root = next(path for path in (f"{folder}/src/lib.rs", f"{folder}/src/main.rs") if path in files)
        crate = Crate(root, files)
        if sys.argv[1:] == ["--arrows", name]:
            print("\n".join(f"{start}:{line}: → {end}" for (start, end), line in sorted(crate.arrows().items())))
            return
        offences += [*imports_of(name, package, files), *circles_of(crate)]
    if offences:
        sys.exit("layers:\n  " + "\n  ".join(offences))


main()
