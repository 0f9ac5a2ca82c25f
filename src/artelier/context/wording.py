"""The shipped texts of prompts: files with a version, loaded once."""

from __future__ import annotations

from functools import lru_cache
from importlib.resources import files


@lru_cache(maxsize=32)
def template(name: str) -> str:
    """The text of a shipped template, such as `summarise-1`."""
    return (files("artelier.context") / "templates" / f"{name}.md").read_text("utf-8").strip()
