"""Native code in a helper process: what an escape from an interpreter could do next."""
