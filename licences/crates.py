"""Which crates there are, which of them end up in what `make install` installs, and the licence texts that they bring along."""

import json
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[1]
TARGET = "x86_64-unknown-linux-gnu"
INSTALLED = ["ramson", "libramson"]
TEXT = re.compile(r"(?i)(un)?licen[cs]e|copying|copyright|notice")
# Code in C or assembly that a crate compiles: its name, licence, and where its text is.
BUNDLED = {
    "libdeflate-sys": ("libdeflate", "MIT", "libdeflate/COPYING"),
    "libsqlite3-sys": ("SQLite", "in the public domain", None),
    "ring": ("code of BoringSSL, OpenSSL and fiat-crypto", "Apache-2.0 AND ISC AND (MIT OR Apache-2.0 OR BSD-1-Clause)", "LICENSE-BoringSSL"),
    "signal-hook": ("one file of C", "the crate's own", "LICENSE-MIT"),
    "zstd-sys": ("Zstandard", "BSD-3-Clause", "zstd/LICENSE"),
}


def cargo(*arguments):
    return subprocess.run(["cargo", *arguments], cwd=ROOT, capture_output=True, text=True)


def metadata(manifest):
    """The locked tree for our target. Offline, except on a machine that has not fetched it yet."""
    tree = ["metadata", "--locked", "--format-version", "1", "--filter-platform", TARGET, "--manifest-path", manifest]
    answer = cargo(*tree, "--offline")
    if answer.returncode != 0:
        answer = cargo(*tree)
    if answer.returncode != 0:
        raise SystemExit(answer.stderr)
    return json.loads(answer.stdout)


def foreign(tree):
    """Packages that are not ours."""
    return [package for package in tree["packages"] if package["source"]]


def linked(tree):
    """Those that are linked into what is installed, without what only runs while building."""
    names = set()
    for package in INSTALLED:
        answer = cargo("tree", "--locked", "--offline", "--package", package, "--edges", "normal,no-proc-macro", "--target", TARGET,
                       "--prefix", "none", "--format", "{p}")
        if answer.returncode != 0:
            raise SystemExit(answer.stderr)
        names.update(tuple(line.split()[:2]) for line in answer.stdout.splitlines())
    return [package for package in foreign(tree) if (package["name"], f"v{package['version']}") in names]


def compiles_c(tree):
    """Identifiers of packages whose build script compiles C."""
    names = {package["id"]: package["name"] for package in tree["packages"]}
    return {node["id"] for node in tree["resolve"]["nodes"] for dependency in node["deps"]
            if names[dependency["pkg"]] == "cc" and any(kind["kind"] == "build" for kind in dependency["dep_kinds"])}


def texts(package):
    """The licence files in the package, and in what it bundles."""
    folder = pathlib.Path(package["manifest_path"]).parent
    return sorted(path for path in folder.rglob("*") if path.is_file() and path.suffix not in (".rs", ".py", ".c", ".h")
                  and (TEXT.match(path.name) or path.parent.name == "LICENSES"))
