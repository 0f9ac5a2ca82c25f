"""The profiles that come with Artelier, each a file of JSON beside this one. They run with any model."""

from __future__ import annotations

from importlib.resources import files

from artelier.errors import NotFound

__all__ = ["SHIPPED", "shipped_text"]

SHIPPED: tuple[str, ...] = ("rp-basic", "research-notes", "support-desk")


def shipped_text(name: str) -> str:
    """The JSON text of a shipped profile. Errors: `NotFound` that names them."""
    if name not in SHIPPED:
        raise NotFound("no profile of this name is shipped", expected=", ".join(SHIPPED), got=str(name)[:80])
    return (files("artelier.operations.profile.shipped") / f"{name}.json").read_text("utf-8")
