"""How many tokens a text has, how many a model takes, and what they cost."""
