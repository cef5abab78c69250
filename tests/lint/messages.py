"""Messages: tests/golden/messages.txt lists every sentence that the command can print, so that a change of words is read as one.

A sentence is a text of at least three words in the production code of the crates that is neither for machines, such as SQL and markup,
nor for developers, such as the reason of a lint. `--write` writes the list anew.
"""

import re
import sys

sys.dont_write_bytecode = True
from rust_source import NO_CODE, ROOT, git, production  # noqa: E402

LIST = ROOT / "tests/golden/messages.txt"
# Placeholders and numbers are no words.
WORDS = re.compile(r"(?<![\w{])[A-Za-z][a-z'’-]+(?![\w}])")
CONTINUED = re.compile(r"\\\n\s*")
# SQL, markup, a style sheet, a header, the columns of a table, a type: for machines.
MACHINE = re.compile(r"[(]?(SELECT|INSERT|UPDATE|DELETE|CREATE) |<|std::|[\w/-]+; \w+=|default-src |svg:root |\S*:>\d+(@\d+)?[|]")
# Said to developers: the reasons of lints and of what cannot happen.
TO_DEVELOPERS = ("#[path =", "reason =", ".expect(", "unreachable!(")


def texts(text, file):
    """The literals of one file that lie in its production code, as they are printed."""
    for found in NO_CODE.finditer(text):
        literal = found.group()
        behind = file.code[found.end():].lstrip()[:1]
        before = file.code[:found.start()].rstrip()
        is_production = behind in tuple(",);}].=|&") and text[found.end():].lstrip()[:1] == behind
        if literal.startswith('"') and is_production and not before.endswith(TO_DEVELOPERS):
            yield CONTINUED.sub("", literal[1:-1]).replace('\\"', '"')


def main():
    names = git("ls-files", "-z", "--cached", "--others", "--exclude-standard", "crates/*/src/*.rs").decode().split("\0")
    sources = {name: (ROOT / name).read_text() for name in names if name and (ROOT / name).exists()}
    found = set()
    for name, file in production(sources).items():
        crate = name.split("/")[1]
        for text in texts(sources[name], file):
            if len(WORDS.findall(text)) >= 3 and " " in text and not MACHINE.match(text.lstrip()):
                found |= {f"{crate}: {line.strip()}" for line in re.split(r"\\n|\n", text) if len(WORDS.findall(line)) >= 3}
    listed = "".join(f"{line}\n" for line in sorted(found))
    if "--write" in sys.argv:
        LIST.write_text(listed)
    elif not LIST.exists() or LIST.read_text() != listed:
        known = set(LIST.read_text().splitlines()) if LIST.exists() else set()
        new = "".join(f"  + {line}\n" for line in sorted(found - known))
        gone = "".join(f"  - {line}\n" for line in sorted(known - found))
        sys.exit(f"messages: read the new ones once more, then tests/lint/messages.py --write\n{new}{gone}")


main()
