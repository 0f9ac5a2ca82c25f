"""The checks before every route: who sends a request, and how much of it is read."""
