"""Folds histories, each a line of standard input with its events as JSON; prints the graph of each as JSON.

Tests of the page get their rows from here, as the page gets them from the server.
"""

from __future__ import annotations

import sys

import msgspec

from artelier.server.graph.keeper import fold_event
from artelier.server.graph.records import Graph, SeenEvent, encode_graph

if __name__ == "__main__":
    for line in sys.stdin:
        graph = Graph()
        for event in msgspec.json.decode(line, type=list[SeenEvent]):
            fold_event(graph, event)
        sys.stdout.write(b"".join(encode_graph(graph, window_from=0)).decode() + "\n")
        sys.stdout.flush()
