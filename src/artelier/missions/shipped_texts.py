"""The shipped texts of this package's prompts: files with a version."""

from __future__ import annotations

from functools import partial

from artelier.context.builder import shipped_text

template = partial(shipped_text, "artelier.missions")
"""The text of a template of this package, by its name."""
