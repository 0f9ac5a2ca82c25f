"""The shipped texts of prompts: files with a version, loaded once."""

from __future__ import annotations

from functools import lru_cache, partial
from importlib.resources import files


@lru_cache(maxsize=128)
def shipped_text(package: str, name: str, *, folder: str = "templates") -> str:
    """A text that a package ships, such as `summarise-1` of `artelier.context`."""
    return (files(package) / folder / f"{name}.md").read_text("utf-8").strip()


template = partial(shipped_text, "artelier.context")
"""The text of a template of this package."""
