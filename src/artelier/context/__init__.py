"""Sections and the one function that makes prompts of them; `kernel/` stores and renders what this builds."""

from artelier.context.assemble import assemble
from artelier.context.section import Section

__all__ = ["Section", "assemble"]
