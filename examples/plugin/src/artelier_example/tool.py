"""The tool `count_words`: its entry point has its name."""

from artelier import tool


@tool(side_effect=False)
def count_words(text: str) -> int:
    """Count the words of a text."""
    return len(text.split())
