# Builds a graph of objects, and an index of its names.
import sys


class Node:
    def __init__(self, name):
        self.name = name
        self.neighbours = []


def make_nodes(count):
    return [Node("node-%d" % number) for number in range(count)]


def connect(nodes):
    for number, node in enumerate(nodes):
        node.neighbours.extend(nodes[number * step % len(nodes)] for step in range(2, 8))


def index_words(nodes):
    index = {}
    for node in nodes:
        index[node.name + "/index"] = (node, len(index))
    return index


def main():
    nodes = make_nodes(200_000)
    connect(nodes)
    index = index_words(nodes)
    print("ready", flush=True)
    sys.stdin.readline()
    return nodes, index


main()
