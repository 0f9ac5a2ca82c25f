"""Arguments of services: from whatever an agent or its code sent to a checked value, or a clear refusal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from artelier.artifacts import Ref
from artelier.artifacts.ref import check_new_id
from artelier.errors import InvalidArguments, InvalidRequest


class Arguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The arguments of one service; an unknown one is a mistake that would otherwise go unseen."""


Shape = TypeVar("Shape", bound=Arguments)


def arguments(given: Mapping[str, Any], shape: type[Shape]) -> Shape:
    """Errors: `InvalidArguments` that names the argument."""
    try:
        return msgspec.convert(dict(given), shape)
    except msgspec.ValidationError as error:
        raise InvalidArguments(
            f"invalid arguments: {error}".replace("Object", "The call").replace("`$.", "`"),
            expected=", ".join(shape.__struct_fields__) or "no arguments",
        ) from None


def ref_of(id: str) -> Ref:
    """The newest version of an artifact. Errors: `InvalidArguments` for what can be no id."""
    try:
        return Ref(check_new_id(id))
    except InvalidRequest as error:
        raise InvalidArguments(error.message, expected=error.expected, got=error.got) from None
