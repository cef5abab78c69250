"""Rust files as the checks read them: production code, without its tests.

A test is a module behind a `cfg` that names test, loom or fuzzing, with the files below it.
"""

import pathlib
import posixpath
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Everything in which a word is no code. Lifetimes are not in it: a character's quote is closed.
NO_CODE = re.compile(r"""//[^\n]* | /\*.*?\*/ | \bb?r(\#*)".*?"\1 | "(?:\\.|[^"\\])*"
                         | '(?:\\u\{\w+\}|\\x\w\w|\\.|[^\\'\n])'""", re.X | re.S)
MODULE = re.compile(r"((?:#\[[^\n]*\]\s*)*)(?:pub(?:\([^)]*\))?\s+)?mod\s+(\w+)\s*([;{])")
TEST = re.compile(r"cfg\((?!not).*?(?<!not\()\b(test|loom|fuzzing)\b")


def blank(text):
    """As many characters, on as many lines, and nothing in them."""
    return re.sub(r"[^\n]", " ", text)


def end_of_block(code, start):
    """Just behind the brace that closes the one at `start`; `code` has no strings."""
    depth = 0
    for brace in re.finditer(r"[{}]", code[start:]):
        depth += 1 if brace.group() == "{" else -1
        if depth == 0:
            return start + brace.end()
    return len(code)


class RustFile:
    """One file: `code` is its text with everything blank that is no production code."""

    def __init__(self, path, text):
        self.path = path
        self.folder = path[:-3] if posixpath.basename(path) not in ("lib.rs", "main.rs", "mod.rs") \
            else posixpath.dirname(path)
        self.code = NO_CODE.sub(lambda found: blank(found.group()), text)
        self.lines = len(text.splitlines())
        self.children = {}
        self.tests = []
        for module in list(MODULE.finditer(self.code)):
            self._module(text, module)

    def _module(self, text, module):
        start, end = module.span()
        name, has_body = module.group(2), module.group(3) == "{"
        if has_body:
            end = end_of_block(self.code, end - 1)
        given = re.search(r'#\[path = "(.*?)"\]', text[start:end].split("mod ")[0])
        child = posixpath.normpath(posixpath.join(posixpath.dirname(self.path), given.group(1))) \
            if given else f"{self.folder}/{name}"
        if TEST.search(module.group(1)):
            self.tests += [] if has_body else [child.removesuffix(".rs")]
            self.lines -= text[start:end].count("\n") + 1
            self.code = self.code[:start] + blank(self.code[start:end]) + self.code[end:]
        else:
            self.children[name] = self.path if has_body else child

    def line(self, offset):
        """The number of the line at an offset of `code`."""
        return self.code.count("\n", 0, offset) + 1


def production(files):
    """The production files among {path: text}, by path."""
    read = {path: RustFile(path, text) for path, text in files.items()}
    tests = [test for file in read.values() for test in file.tests]
    return {path: file for path, file in read.items()
            if not any(path == f"{test}.rs" or path.startswith(f"{test}/") for test in tests)}


def git(*arguments):
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, check=True).stdout
