"""The failures of operations, without loading profiles, and their words without secrets.

Errors are stored and shown; what looks like a secret is taken out first.
"""

from __future__ import annotations

import re

from artelier.errors import ArtelierError


class OperationStepFailed(ArtelierError):
    """A required operation of a step is not done: `failed_type` is `before_barrier` or `after_main_llm`."""

    code = "operation_required"


MASK = "[secret]"

_SECRETS = re.compile(
    r"""(?ix)
      \b(?:sk|pk|rk)[-_][a-z0-9_-]{12,200}            # keys of model providers and payment services
    | \bgh[pousr]_[a-z0-9]{16,200} | \bgithub_pat_[a-z0-9_]{16,200}
    | \bxox[abprs]-[a-z0-9-]{10,200}
    | \bAKIA[0-9A-Z]{12,20}\b
    | \bAIza[0-9a-z_-]{20,60}
    | \beyJ[a-z0-9_-]{8,2000}\.[a-z0-9_-]{8,4000}\.[a-z0-9_-]{0,2000}   # JSON web tokens
    | (?<=://)[^\s:/@]{1,200}:[^\s/@]{1,200}(?=@)      # name and password in an address
    """
)
_NAMED = re.compile(
    r"""(?ix)
    (\b(?:authorization|bearer|api[_-]?key|access[_-]?key|secret(?:[_-]?key)?|password|passwd|token)\b
     ["']?\s{0,3}(?:[:=]\s{0,3}(?:bearer\s{1,3})?|\s)["']?)
    ([a-z0-9_\-./+=~]{8,2000})
    """
)


def mask_secrets(text: str) -> str:
    """The text without what looks like a key, a token or a password. Cost: O(n)."""
    text = _SECRETS.sub(MASK, text)
    return _NAMED.sub(lambda found: found[1] + (MASK if _is_secret(found[2]) else found[2]), text)


def _is_secret(value: str) -> bool:
    """Words of a sentence have no digits; what follows `token` there is no secret."""
    return any(char.isdigit() for char in value) or value == MASK
