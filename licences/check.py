"""The locked trees: all from crates.io, under licences that are allowed, none banned, and a notice for whatever is installed.

Needs no network once the crates of both trees have been fetched, as any build and `make fuzz` do.
"""

import re
import sys
import tomllib

from crates import BUNDLED, ROOT, compiles_c, foreign, linked, metadata, texts

CRATES_IO = "registry+https://github.com/rust-lang/crates.io-index"
TREES = ["Cargo", "fuzz/Cargo"]
ALLOWED = {
    "0BSD", "Apache-2.0", "Apache-2.0 WITH LLVM-exception", "BSD-2-Clause", "BSD-3-Clause", "BSL-1.0", "CDLA-Permissive-2.0", "ISC",
    "MIT", "Unicode-3.0", "Unlicense", "Zlib",
    # pathrs; its own files stay under it, ours do not come under it.
    "MPL-2.0",
    # LLVM's libFuzzer, in fuzz targets only.
    "NCSA",
    # MIT without its condition: under the validator of JSON Schemas, in tests only.
    "MIT-0",
}
BANNED = {
    "native-tls": "rustls is what ureq uses here",
    "openssl-sys": "it would need the system's OpenSSL",
}
WORD = re.compile(r"[()]|[^\s()/]+|/")


def is_allowed(expression):
    """An SPDX expression, or one in the older form with a slash for OR."""
    words = WORD.findall(expression)

    def term():
        word = words.pop(0)
        if word == "(":
            answer = either()
            words.pop(0)
            return answer
        if words[:1] == ["WITH"]:
            word += f" {words.pop(0)} {words.pop(0)}"
        return word in ALLOWED

    def both():
        answer = term()
        while words[:1] == ["AND"]:
            words.pop(0)
            answer = term() and answer
        return answer

    def either():
        answer = both()
        while words[:1] in (["OR"], ["/"]):
            words.pop(0)
            answer = both() or answer
        return answer

    return either()


def sources_of(lock):
    """Faults in where packages come from."""
    for package in tomllib.loads((ROOT / lock).read_text())["package"]:
        name, source = f"{lock}: {package['name']} {package['version']}", package.get("source")
        if source is None and not re.match("(lib)?ramson", package["name"]):
            yield f"{name} is neither ours nor from crates.io"
        if source is not None and (source != CRATES_IO or "checksum" not in package):
            yield f"{name} comes from {source}; only crates.io is allowed"
        if package["name"] in BANNED:
            yield f"{name} is banned: {BANNED[package['name']]}"


def licences_of(manifest, tree):
    for package in foreign(tree):
        licence = package["license"]
        if licence is None or not is_allowed(licence):
            yield f"{manifest}: {package['name']} {package['version']} is under {licence}; allowed licences are in licences/check.py"


def notices_of(tree):
    with_c = compiles_c(tree)
    crates = linked(tree)
    for package in crates:
        if not texts(package):
            yield f"{package['name']} {package['version']} brings no licence text along"
        if package["id"] in with_c and package["name"] not in BUNDLED:
            yield f"{package['name']} compiles C that licences/crates.py does not name in BUNDLED"
    files = {package["name"]: [str(path) for path in texts(package)] for package in crates}
    for name, (code, _, text) in BUNDLED.items():
        if name not in files:
            yield f"{name}, in BUNDLED of licences/crates.py, is not linked"
        elif text and not any(path.endswith(text) for path in files[name]):
            yield f"{name} has no {text} for {code}"


def main():
    trees = {f"{name}.toml": metadata(f"{name}.toml") for name in TREES}
    offences = [offence for name in TREES for offence in sources_of(f"{name}.lock")]
    offences += [offence for manifest, tree in trees.items() for offence in licences_of(manifest, tree)]
    offences += notices_of(trees["Cargo.toml"])
    if offences:
        sys.exit("licences:\n  " + "\n  ".join(offences))


main()
