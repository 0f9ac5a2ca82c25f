"""The failures of a server, and their meaning for a call.

    ServerUnavailable   it cannot be reached, or was lost during a call that may be repeated
    CallLost            a call was handed over and its outcome is hidden; the kernel stops at unknown_outcome
    ServerBroken        it speaks, but not the protocol

A connection ends one call with `Declined`, `Answered` or `Lost`; `tool.py` turns them into one of the above,
or into a `ToolFailed`, depending on what the tool may do.
"""

from __future__ import annotations

from artelier.errors import External, TransientError


class ServerUnavailable(TransientError):
    """An MCP server does not start, does not answer, or was lost while nothing was at stake."""

    code = "mcp_unavailable"


class ServerBroken(External):
    """An MCP server answered with something that the protocol does not know."""

    code = "mcp_broken"


class CallLost(External):
    """A call was handed to an MCP server and nobody knows what became of it."""

    code = "mcp_call_lost"


class Declined(Exception):
    """The server says that it did not begin."""


class Answered(Exception):
    """The server answers with an error that does not say whether it began."""


class Lost(Exception):
    """No answer came, or none that can be read."""
