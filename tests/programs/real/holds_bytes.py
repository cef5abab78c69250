"""Waits for a line, allocates bytes objects, says how much they hold, waits for the end of input."""

import sys

print("ready", flush=True)
sys.stdin.readline()
kept = [bytes(200 + number % 1800) for number in range(60000)]
print(sum(map(sys.getsizeof, kept)) + sys.getsizeof(kept), flush=True)
sys.stdin.read()
