"""One turn of a chat as a run."""
