"""An agent in one file: what it holds, and the checks of it."""
