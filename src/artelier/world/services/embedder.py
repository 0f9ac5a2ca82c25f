"""`genesis_embedder`: texts to vectors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from artelier.artifacts import Call, Tree, Working
from artelier.errors import InvalidArguments
from artelier.memory.entries import TEXT_CHARS_MAX
from artelier.world.services.arguments import Arguments, arguments
from artelier.world.stores.embedding import as_numbers, embed, embedder_of
from artelier.world.stores.kind import StoreConfig

TEXTS_MAX = 16
"""In one call: their vectors are just below what an invocation may give."""


class _Texts(Arguments, frozen=True, kw_only=True):
    text: str | None = None
    texts: list[str] | None = None


class EmbedderService:
    """`{text}` gives `{embedding, dims}`; `{texts}` gives `{embeddings, dims}`, each at the posted price."""

    def units(self, args: Mapping[str, Any], /) -> int:
        return len(_texts(args))

    async def run(self, working: Working, call: Call, tree: Tree, /) -> dict[str, Any]:
        texts = _texts(call.args)
        vectors = [as_numbers(one) for one in await embed(embedder_of(StoreConfig()), texts)]
        if call.args.get("texts") is None:
            return {"embedding": vectors[0], "dims": len(vectors[0])}
        return {"embeddings": vectors, "dims": len(vectors[0])}


def _texts(args: Mapping[str, Any]) -> list[str]:
    given = arguments(args, _Texts)
    if (given.text is None) == (given.texts is None):
        raise InvalidArguments("what is to be embedded", expected="either `text` or `texts`")
    texts = [given.text] if given.text is not None else given.texts or []
    if not 1 <= len(texts) <= TEXTS_MAX:
        raise InvalidArguments("texts", expected=f"1 to {TEXTS_MAX} of them", got=len(texts))
    for text in texts:
        if not text.strip() or len(text) > TEXT_CHARS_MAX:
            raise InvalidArguments(
                "a text to be embedded",
                expected=f"1 to {TEXT_CHARS_MAX} characters",
                got=f"{len(text)} characters",
            )
    return texts
