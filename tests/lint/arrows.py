"""Arrows between the files of a crate: what each names, and the file that defines that.

A re-export only points the way. Methods and fields are not followed.
"""

import posixpath
import re

USE = re.compile(r"(\bpub(?:\([^)]*\))?\s+)?\buse\s+([^;]+);")
INLINE = re.compile(r"(?<![\w:])(\w+)((?:::\w+)+)")
ITEM = re.compile(r"\b(?:fn|struct|enum|union|trait|const|static|type|macro_rules!)\s+(?:mut\s+)?(\w+)")


def leaves(tree, prefix=()):
    """(path, local name) for each leaf of a `use` tree; the name is "*" for a glob."""
    tree = tree.strip()
    head, brace, rest = tree.partition("{")
    path = prefix + tuple(part.strip() for part in head.split("::") if part.strip())
    if not brace:
        *before, last = path
        real, _, name = last.partition(" as ")
        path = tuple(before) + (() if real == "self" and before else (real.strip(),))
        yield path, name.strip() or path[-1]
        return
    depth, part = 0, ""
    for character in rest[:rest.rindex("}")] + ",":
        depth += (character == "{") - (character == "}")
        if character == "," and depth == 0:
            if part.strip():
                yield from leaves(part, path)
            part = ""
        else:
            part += character


class Crate:
    """The files of one crate, and the arrows between them."""

    def __init__(self, root, files):
        self.files, self.root = files, root
        self.paths = {file.folder: path for path, file in files.items()}
        self.items, self.imports = {}, {}
        for path, file in files.items():
            self.items[path] = set(ITEM.findall(file.code))
            self.imports[path] = [(target, name, found) for found in USE.finditer(file.code)
                                  for target, name in leaves(found.group(2))]

    def parent(self, path):
        folder = self.files[path].folder
        return self.paths.get(posixpath.dirname(folder), path)

    def target(self, path, names, seen=()):
        """The file that defines what `names` stands for in the file `path`; None for a module or foreign name."""
        if not names:
            return None
        first, rest = names[0], names[1:]
        if first in ("crate", "self", "super"):
            return self.target({"crate": self.root, "self": path}.get(first) or self.parent(path), rest, seen)
        if first in self.files[path].children:
            child = self.files[path].children[first]
            inner = child if child in self.files else self.paths.get(child)
            return inner if inner == path else inner and self.target(inner, rest, seen)
        if first in self.items[path]:
            return path
        if (path, first) in seen:
            return None
        seen += ((path, first),)
        for target, name, _ in self.imports[path]:
            whole = target[:-1] + names if name == "*" else target + rest if name == first else None
            found = whole and self.target(path, whole, seen)
            if found and (name != "*" or found != path):
                return found
        return None

    def named(self, path):
        """(names, offset) of all that a file names: its imports, and the paths inside its code."""
        code = self.files[path].code
        for target, name, found in self.imports[path]:
            code = code[:found.start()] + " " * len(found.group()) + code[found.end():]
        words = set(re.findall(r"\w+", code))
        for target, name, found in self.imports[path]:
            is_public = found.group(1)
            if name == "*" and not is_public:
                for word in words - self.items[path]:
                    yield target[:-1] + (word,), found.start()
            elif name in words or not is_public:
                yield target, found.start()
        for found in INLINE.finditer(code):
            yield (found.group(1), *found.group(2).split("::")[1:]), found.start()

    def arrows(self):
        """{(from, to): first line} between different files."""
        lines = {}
        for path in self.files:
            for names, offset in self.named(path):
                target = self.target(path, names)
                if target and target != path:
                    line = self.files[path].line(offset)
                    lines[path, target] = min(line, lines.get((path, target), line))
        return lines
