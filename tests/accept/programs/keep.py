# Keeps 100 objects of about 4 KiB every 100 ms, through a function that Python runs again and again. Argument: seconds.
import sys, time

kept = []


def keep(size):
    kept.append(bytearray(size))


def handle():
    for number in range(100):
        keep(4000 + number)


end = time.time() + float(sys.argv[1])
while time.time() < end:
    handle()
    time.sleep(0.1)
