"""`artelier chat`: a conversation in the terminal, or through a pipe."""

from artelier.cli.chat.command import app

__all__ = ["app"]
