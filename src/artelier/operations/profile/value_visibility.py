"""The values of operations that may not be shown: they may be, or hold, a hidden artifact (I9). Pure.

A text that becomes a value is followed by the names in it. Code, tools, models and searches make something
new of what they see: what they find is hidden only where it is itself a hidden artifact.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Any, Literal

from artelier.errors import ArtelierError
from artelier.operations.kinds.shared_values import destination, paths_in
from artelier.operations.profile.definition import ArtifactUpsert, Params

if TYPE_CHECKING:
    from artelier.operations.kinds.contract import OperationKind

Reader = Literal["prompt", "ui"]
Source = tuple[str, "OperationKind[Any]", Params]
"""An operation: its id, its kind and its params."""


def hidden_values(sources: Iterable[Source], tags: Collection[str], reader: Reader) -> frozenset[str]:
    """Ids of the operations whose values a reader may not be shown. `tags` are hidden from that reader.

    Cost: O(operations and their texts), once more for each helper whose helper comes later.
    """
    left, hidden = list(sources), set[str]()
    found = -1
    while len(hidden) > found:
        found = len(hidden)
        left = [one for one in left if one[0] not in hidden]
        hidden.update(id_ for id_, kind, params in left if _hides(kind, params, tags, hidden, reader))
    return frozenset(hidden)


def _hides(
    kind: OperationKind[Any], params: Params, tags: Collection[str], hidden: Collection[str], reader: Reader
) -> bool:
    for effect in params.effects:
        if isinstance(effect, ArtifactUpsert) and effect.value is None and effect.tag in tags:
            return True
    text = kind.shows(params)
    if text is None or destination(params)[reader == "ui"]:
        return False  # no text, or one that is made without what is hidden
    try:
        paths = paths_in(text)
    except ArtelierError:  # it will fail, and show nothing
        return False
    return any(
        reads(path, "art", tags) or reads(path, "deps", hidden) or reads(path, "rag", hidden)
        for path in paths
    )


def reads(path: tuple[str, ...], root: str, names: Collection[str]) -> bool:
    """Return True if a path of a template may read one of the names below a root."""
    return bool(names) and path[0] == root and (len(path) == 1 or path[1] in ("*", *names))
