"""Which definitions may be used, and what a person should look at first."""
