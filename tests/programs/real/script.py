"""Typical work of Python programs: JSON, children, threads, forked workers. Ends with status 3."""

import json
import multiprocessing
import subprocess
import sys
import threading


def work(count):
    texts = [json.dumps({str(key): [key] * 20 for key in range(count)}) for _ in range(20)]
    return sum(len(json.loads(text)) + len(text) for text in texts)


def main():
    print(work(300))
    child = subprocess.run([sys.executable, "-S", "-c", "print(sum(len(str(n)) for n in range(30000)))"],
                           capture_output=True, text=True)
    print(child.returncode, child.stdout)
    sums = []
    threads = [threading.Thread(target=lambda: sums.append(work(100))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(sums)
    with multiprocessing.get_context("fork").Pool(2) as pool:
        print(pool.map(work, [50, 100, 150]))
    sys.exit(3)


if __name__ == "__main__":
    main()
