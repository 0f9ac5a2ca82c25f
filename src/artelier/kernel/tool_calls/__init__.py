"""Tool calls: two phases, at most one dispatch per decision, and the way to undo them."""
