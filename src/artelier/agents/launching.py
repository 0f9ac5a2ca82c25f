"""The old name of `artelier.agents.launch`; use that."""

from typing import TYPE_CHECKING

from artelier.ports.lazy_names import load_moved

if TYPE_CHECKING:
    from artelier.agents.launch import *  # noqa: F403

__getattr__ = load_moved(__name__, "artelier.agents.launch")
