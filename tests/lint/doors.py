"""Doors: in crates that are given paths of others, files are opened by ramson-paths alone, except in the files named here."""

import re
import sys

from rust_source import ROOT, production

CRATES = "symbols process source analysis inject"
OPENS = re.compile(r"\b(?:File::open|File::options|OpenOptions|fs::read|fs::read_to_string|read_link|readlink|canonicalize)\b")
OWN_PROC = "a file of /proc that we form, which the kernel makes up"
# Files that may open something in another way, and what each opens.
EXCEPTIONS = {
    "crates/symbols/src/folder.rs": "the user's own cache",
    "crates/process/src/processes.rs": OWN_PROC + ", and control groups that the user names",
    "crates/process/src/program.rs": "the program that the user runs",
    "crates/process/src/rights.rs": OWN_PROC,
    "crates/process/src/text.rs": OWN_PROC + " or /sys",
    "crates/source/src/clickhouse.rs": "the password file that the user names",
    "crates/source/src/file.rs": "what the user typed, and /proc/self/fd",
    "crates/source/src/moment.rs": "the history that the user named",
    "crates/source/src/places.rs": "our own library, or what RAMSON_LIBRARY names",
    "crates/inject/src/borrow.rs": OWN_PROC,
    "crates/inject/src/identity.rs": OWN_PROC,
    "crates/inject/src/maps.rs": OWN_PROC,
    "crates/inject/src/seccomp.rs": OWN_PROC,
    "crates/inject/src/standstill.rs": OWN_PROC,
    "crates/inject/src/threads.rs": OWN_PROC,
    "crates/inject/src/trace.rs": OWN_PROC,
}


def main():
    offences, used = [], set()
    for crate in CRATES.split():
        folder = ROOT / "crates" / crate / "src"
        files = production({str(path.relative_to(ROOT)): path.read_text() for path in folder.rglob("*.rs")})
        for path, file in files.items():
            found = list(OPENS.finditer(file.code))
            if found and path in EXCEPTIONS:
                used.add(path)
            elif found:
                offences += [f"{path}:{file.line(one.start())}: {one.group()}. Open it by ramson-paths, "
                             "or name the file and what it opens in tests/lint/doors.py" for one in found]
    offences += [f"{path}: opens nothing any more; take it out of tests/lint/doors.py" for path in EXCEPTIONS if path not in used]
    if offences:
        sys.exit("doors:\n  " + "\n  ".join(offences))


main()
