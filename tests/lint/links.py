"""Links in documents: every relative link and every path in backticks under a folder of ours leads to a file."""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
FOLDERS = "libramson|format|crates|tests|bench|fuzz|docs|demo"
PATH = re.compile(rf"`((?:{FOLDERS})/[\w./-]+)`")


def main():
    documents = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"],
                               cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    broken = []
    for name in documents:
        document = ROOT / name
        text = document.read_text()
        for target in LINK.findall(text):
            if "://" not in target and not (document.parent / target).exists():
                broken.append(f"{name}: {target}")
        broken += [f"{name}: `{path}`" for path in PATH.findall(text) if not (ROOT / path).exists()]
    if broken:
        sys.exit("links that lead nowhere:\n  " + "\n  ".join(broken))


main()
