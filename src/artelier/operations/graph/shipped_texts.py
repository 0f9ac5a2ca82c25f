"""The shipped texts of this package's prompts: files with a version."""

from __future__ import annotations

from functools import partial

from artelier.context.builder import shipped_text

wording = partial(shipped_text, "artelier.operations", folder="prompts")
"""The text of a prompt of this package, by its name."""
