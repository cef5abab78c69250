# Reads rows of a table, groups them, and renders a page for each group.
import csv
import io
import sys

TABLE = "\n".join("%d,city %d,%d" % (number, number % 5000, number * 7) for number in range(200_000))


def read_rows():
    return list(csv.reader(io.StringIO(TABLE)))


def group_by_city(rows):
    groups = {}
    for row in rows:
        groups.setdefault(row[1], []).append((int(row[0]), int(row[2])))
    return groups


def render(groups):
    return {city: "<td>" + "</td><td>".join(map(str, values)) + "</td>" for city, values in groups.items()}


def main():
    rows = read_rows()
    groups = group_by_city(rows)
    pages = render(groups)
    print("ready", flush=True)
    sys.stdin.readline()
    return rows, groups, pages


main()
