"""The index of a memory: words, vectors, and how entries are ranked."""
