"""The lookup of embedders by name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, cast
from zlib import crc32

from artelier.errors import InsufficientFunds, InvalidConfig, InvalidRequest, RunSuspended
from artelier.ids import fresh_secret
from artelier.log.blobs import name_blob
from artelier.memory.index.tokenizer import stop_words, term_of, words
from artelier.plugins import EMBEDDERS, PluginPoint, active
from artelier.ports.memory import Ask, paid_by

if TYPE_CHECKING:
    from artelier.kernel.tenants.registry import TenantScope
    from artelier.ports.memory import Embedder, Vector


KNOWN = "hashing, minilm or openai:MODEL"

REGISTERED: dict[str, Embedder] = {}
"""Embedders of this process's own, by name."""


def register_embedder(embedder: Embedder) -> None:
    """Offer an embedder of your own under its name, to everything in this process that names one."""
    REGISTERED[embedder.name] = embedder


def embedder_named(name: str, *, base_url: str | None = None) -> Embedder:
    """The embedder of that name: one that was registered, `hashing`, `minilm`, `openai:MODEL` over the
    network, or one that an allowed plugin offers.

    `base_url`: of a server that speaks OpenAI's protocol, for `openai:MODEL`; else OpenAI's own or that of
    the environment.
    Errors: `InvalidRequest` for a name that nobody knows. Keys, packages and models are looked for on
    first use; `PluginBroken`.
    """
    if base_url is None and name in REGISTERED:
        return REGISTERED[name]
    provider, colon, model = name.partition(":")
    if provider == "openai" and colon and model.strip():
        from artelier.memory.embedders.provider import ProviderEmbedder

        return ProviderEmbedder(model.strip(), base_url=base_url)
    if base_url is not None:
        raise InvalidRequest("only openai:MODEL takes a base_url", got=name)
    if name == "hashing":
        return HashingEmbedder()
    if name == "minilm":
        from artelier.memory.embedders.minilm import MiniLMEmbedder

        return MiniLMEmbedder()
    if active().has(EMBEDDER_POINT, name):
        return active().load(EMBEDDER_POINT, name)
    known = ", ".join((*sorted(REGISTERED), *active().names(EMBEDDER_POINT), KNOWN))
    raise InvalidRequest("no such embedder", expected=known, got=f"{name!r:.80}")


def _made(name: str, loaded: object) -> Embedder:
    """Return the embedder of a plugin: what it offers, or what that returns when it is called."""
    is_embedder = not isinstance(loaded, type) and callable(getattr(loaded, "embed", None))
    embedder = loaded if is_embedder or not callable(loaded) else loaded()
    if not callable(getattr(embedder, "embed", None)) or getattr(embedder, "name", None) != name:
        raise InvalidConfig(
            f"{name!r} is no embedder of this name",
            expected="an object with `name`, `dims` and an async embed(texts), or what makes one",
            got=repr(embedder)[:80],
        )
    return cast("Embedder", embedder)


EMBEDDER_POINT = PluginPoint(EMBEDDERS, _made, taken=lambda: ("hashing", "minilm", "openai"))
"""An embedder under its name."""


# --------------------------------------------------------------------------- hashing
# The embedder that needs nothing: features of a text, hashed into a vector.
# It knows spelling and word stems, no meanings: texts are near each other if they share words, pairs of
# words, or pieces of words. The same text gives the same vector on every machine.


DIMS = 384
"""The length of the small sentence model, so that the same store fits both."""
WORD, PAIR, PIECE, FILLER = 1.0, 0.5, 0.35, 0.05
"""What a stem, two stems in a row, four letters of a word, and a stop word count. Measured."""
PIECE_LETTERS = 4
TEXT_CHARS_MAX = 20_000


class HashingEmbedder:
    """384 dimensions; about 0.1 ms of CPU per short text."""

    name = "hashing"
    dims = DIMS

    async def embed(self, texts: Sequence[str], /) -> list[Vector]:
        """Vectors for texts. Errors: `InvalidRequest` for an empty text."""
        return [self.vector(text) for text in texts]

    def vector(self, text: str) -> Vector:
        """One text's vector."""
        import numpy as np

        if not text.strip():
            raise InvalidRequest("an empty text has no vector", got=repr(text[:20]))
        vector = np.zeros(DIMS, dtype=np.float32)
        for feature, weight in _features(text[:TEXT_CHARS_MAX]):
            hashed = crc32(feature.encode(errors="surrogatepass"))
            vector[(hashed >> 1) % DIMS] += weight if hashed & 1 else -weight
        if not vector.any():
            # Only signs, or features that took each other out: the text as a whole is its feature.
            vector[crc32(text.encode(errors="surrogatepass")) % DIMS] = 1.0
        return vector / np.float32(np.linalg.norm(vector))


def _features(text: str) -> Iterator[tuple[str, float]]:
    before = ""
    for word in words(text):
        if word in stop_words():
            yield f"filler {word}", FILLER
            continue
        term = term_of(word)
        yield f"word {term}", WORD
        if before:
            yield f"pair {' '.join(sorted((before, term)))}", PAIR
        before = term
        edged = f"<{word}>"
        count = max(len(edged) - PIECE_LETTERS + 1, 1)
        # A long word has more pieces, but is no more than one word.
        weight = PIECE * (PIECE_LETTERS / (count + PIECE_LETTERS)) ** 0.5
        for start in range(count):
            yield f"piece {edged[start : start + PIECE_LETTERS]}", weight


# --------------------------------------------------------------------------- payer
# Payment for an embedder that a person, or a tick of a world, calls outside of any run.


class DeskPayer:
    """A tenant: each text is asked for in a run of its own, so that what it costs is in the log.

    `name` is what these runs are called after. Under one name, a text is asked for and paid for once.
    """

    def __init__(self, desk: TenantScope, name: str, *, asks_again: bool = False, scope: str = "") -> None:
        """`asks_again`: what could not be paid is asked for under the same name when there is money.

        `scope`: one whose cap holds for it too.
        """
        self._desk = desk
        self._name = name
        self._asks_again = asks_again
        self._scope = scope

    async def vectors(self, model: str, texts: Sequence[str], ask: Ask) -> Sequence[Sequence[float]]:
        """See `Payer.vectors`. Errors: `InsufficientFunds` too."""
        from artelier.kernel.run_limits import count_also, counters_of
        from artelier.kernel.steps.model_step import embed_step

        # A keyed hash: ids stand in events for ever, and nobody is to find a text by guessing it.
        key = await self._desk.services.store.data_key(self._desk.id)
        mark = name_blob(key, "\n".join((model, *texts)).encode()).hex()[:12]
        run_id = f"{self._name}/{mark}"
        try:
            async with self._desk.run(run_id, on_wait="suspend") as run:
                if self._scope:
                    services, tenant = self._desk.services, self._desk.id
                    count_also(run.core, await counters_of(services, tenant, [self._scope]))
                found = await embed_step(run.core, "ask", model, texts, ask)
                run.finish(len(texts))
                return found
        except RunSuspended as stopped:
            if not self._asks_again:
                await self._desk.cancel(run_id, note="it cannot be paid")
            raise InsufficientFunds(
                f"the embedder {model} cannot be paid",
                got=str(stopped),
                hint="Raise the budget: artelier tenants update ID --budget-usd X.",
            ) from None


def paid_by_person(desk: TenantScope) -> AbstractContextManager[None]:
    """Have a tenant pay for what a person asks inside."""
    return paid_by(DeskPayer(desk, f"embedding:{fresh_secret(6).hex()}"))
