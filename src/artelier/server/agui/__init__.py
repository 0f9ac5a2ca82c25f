"""The log as events of AG-UI."""
