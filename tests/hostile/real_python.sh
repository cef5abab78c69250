#!/bin/sh
# Python, with every object from malloc: JSON, sorting, threads, a subprocess, exceptions, a class of cyclic garbage.
# env: PYTHONMALLOC=malloc
# env: PYTHONHASHSEED=0
# recorded: python3
exec python3 -S - << 'END'
import gc, json, subprocess, threading
data = {str(i): [i, str(i) * 3, {"x": i / 7}] for i in range(3000)}
text = json.dumps(data, sort_keys=True)
print(len(text), json.loads(text) == data)
class Node:
    def __init__(self, other): self.other, other.other = other, self
    other = None
def work():
    for _ in range(20):
        a = Node.__new__(Node); Node(a)
        sorted(text[i:i + 9] for i in range(0, len(text), 7))
threads = [threading.Thread(target=work) for _ in range(4)]
[t.start() for t in threads]; [t.join() for t in threads]
print(gc.collect() >= 0, subprocess.run(["sh", "-c", "echo sub"], capture_output=True).stdout)
def deep(n): return n and deep(n - 1)
try: deep(10 ** 6)
except RecursionError: print("recursion ended")
END
