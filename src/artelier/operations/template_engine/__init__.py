"""Templates of users: Liquid that only substitutes declared values."""
