"""Tools that come with agents."""
