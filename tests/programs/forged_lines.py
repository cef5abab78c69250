# Writes a pprof profile in which every string has a line feed, and after it what looks like a line of ramson's: forged_lines.py FILE
import gzip
import sys

FORGED = "\nramson: forged \u202e\x1b]0;title\x07"
strings = [""]


def varint(value):
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def message(field, content):
    return varint(field << 3 | 2) + varint(len(content)) + content


def number(field, value):
    return varint(field << 3) + varint(value)


def string(field, text):
    if text not in strings:
        strings.append(text)
    return number(field, strings.index(text))


def forged(field, text):
    return string(field, text + FORGED)


profile = message(1, string(1, "inuse_space") + string(2, "bytes")) + message(1, string(1, "inuse_objects") + string(2, "count"))
profile += message(1, forged(1, "cpu") + forged(2, "nanoseconds"))
label = message(3, forged(1, "label") + forged(2, "value"))
profile += message(2, message(1, varint(1)) + message(2, varint(1000) + varint(1) + varint(5)) + label)
profile += message(3, number(1, 1) + number(2, 0x1000) + number(3, 0x9000) + forged(5, "/bin/x"))
profile += message(4, number(1, 1) + number(2, 1) + number(3, 0x1100) + message(4, number(1, 1) + number(2, 7)))
profile += message(5, number(1, 1) + forged(2, "function") + forged(4, "file.c"))
profile += forged(13, "comment") + forged(14, "inuse_space")
profile += b"".join(message(6, text.encode()) for text in strings)
with open(sys.argv[1], "wb") as file:
    file.write(gzip.compress(profile))
