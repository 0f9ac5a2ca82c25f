"""The Context Inspector."""
