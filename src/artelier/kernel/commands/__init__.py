"""Commands of people and programs to runs."""
