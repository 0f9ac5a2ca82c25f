"""The shipped texts of this package's prompts: files with a version, loaded once."""

from __future__ import annotations

from functools import lru_cache
from importlib.resources import files


@lru_cache(maxsize=32)
def wording(name: str) -> str:
    """The text of a shipped prompt, such as `continue-1`."""
    return (files("artelier.operations") / "prompts" / f"{name}.md").read_text("utf-8").strip()
