"""A goal becomes a plan, and a plan artifacts and tasks."""
