"""Whole looks for garbage: a long one leaves out what it has seen, and now and then one is at everything."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import gc, sys
from artelier import garbage

garbage.LONG_S = 0.0  # each look is long
holder = type("Holder", (), {})()
garbage.leave_out(holder)
kept = [[] for _ in range(1000)]
before = gc.get_freeze_count()
gc.collect()
assert gc.get_freeze_count() >= before + 1000, "what was seen is left out"

class Node:
    gone = 0
    def __del__(self):
        Node.gone += 1

node = Node()
node.self = node
gc.collect()
del node  # garbage that the next looks leave out
looks = 0
while not Node.gone and looks < 100:
    gc.collect()
    looks += 1
assert looks <= garbage.WHOLE_LOOKS + 1, looks
garbage.look_again(holder)
assert gc.get_freeze_count() == 0 and gc.get_threshold()[2] == garbage.USUAL_EACH
assert garbage._long_looks.note not in gc.callbacks
print("done")
"""


def test_a_long_look_leaves_out_what_it_has_seen_and_what_is_left_out_is_found_later() -> None:
    """In a process of its own, since this one leaves out its own objects."""
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=120)
    assert done.stdout == "done\n", done.stderr
