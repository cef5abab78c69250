"""Prints the notices for the code of others in what `make install` installs: a list of it, then each licence text once."""

import collections
import pathlib

from crates import BUNDLED, linked, metadata, texts

HEAD = """\
ramson and libramson.so contain the following code of others. The licence texts follow, each with the crates that it
belongs to, as these crates bring them along. Where a licence gives a choice, ramson is distributed under MIT,
Apache-2.0 or, for pathrs, MPL-2.0; the source of each crate is at https://crates.io/crates/NAME/VERSION.

The Rust standard library and the crates in it: MIT OR Apache-2.0, LLVM's compiler-rt in it: Apache-2.0 WITH LLVM-exception
(https://github.com/rust-lang/rust/blob/master/COPYRIGHT).
"""


def main():
    crates = linked(metadata("Cargo.toml"))
    print(HEAD)
    owners = collections.defaultdict(list)
    content = {}
    for package in crates:
        name = f"{package['name']} {package['version']}"
        print(f"{name}: {package['license']}")
        if package["name"] in BUNDLED:
            code, licence, _ = BUNDLED[package["name"]]
            print(f"  with {code}: {licence}")
        folder = pathlib.Path(package["manifest_path"]).parent
        for path in texts(package):
            text = path.read_text(errors="replace")
            # Copies of one text differ in their line breaks.
            key = " ".join(text.split())
            content.setdefault(key, text)
            owners[key].append(f"{name} ({path.relative_to(folder)})")
    print("\nramson also contains web/dist/app.js, with:\n")
    print((pathlib.Path(__file__).parents[1] / "web/dist/notices.txt").read_text().strip())
    for key, names in owners.items():
        print("\n" + "=" * 100 + "\n" + "\n".join(names) + "\n\n" + content[key].strip())


main()
