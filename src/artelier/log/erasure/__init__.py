"""Taking content out of the log: erasure, its proof, and garbage collection."""
