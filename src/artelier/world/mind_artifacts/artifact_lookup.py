"""The result of reading an artifact that an agent thinks with: its content, or the reason for having none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Skip: TypeAlias = Literal["missing", "deleted", "denied", "no_funds", "failed", "too_dear"]
"""References are soft: none of these stops an agent. `failed`: it was there and of no use; `too_dear`: its
price was raised above what the agent has agreed to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """An artifact as it was read."""

    ref: str
    """With its version: `handbook@3`."""
    content: object
    trust: str = "untrusted"
    """`trusted` for what an agent may take as an instruction; of any other label text is fenced as data."""
    grant: str = ""
