"""Personal data that a tool is not given: no file has its placeholder, so a search would find nothing."""

from __future__ import annotations

from artelier.errors import ToolFailed
from artelier.pii.placeholder import placeholders_in


def refuse_placeholders(text: str) -> None:
    """Let no condition on a placeholder pass: the 0 that it finds would be taken for a figure.

    Errors: `ToolFailed` that says how to ask instead.
    """
    found = dict.fromkeys(placeholders_in(text))
    if found:
        raise ToolFailed(
            f"{', '.join(found)[:300]} stands for personal data whose value this tool is not given; files"
            " hold the value, so nothing would be found",
            hint="Ask without that condition, for each value of the column or for the text around it: in what"
            " comes back the same value is the same placeholder.",
        )
