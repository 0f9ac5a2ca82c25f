"""The same agent in Artelier and in its peers: turns, crowds and resumes, each in a process of its own."""
