"""The failure of a step that gives no value; the parent makes an error of it."""

from __future__ import annotations


class TransformFailure(Exception):
    """`code` is `no_match`, `error`, `timeout` or `too_large`; the message holds nothing of the value."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.step: int | None = None
        """Which step, counted from 0."""
