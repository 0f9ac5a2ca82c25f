"""The history of a world: its hash, its forks, and the file that carries it."""
