"""Payment for an embedder that a person, or a tick of a world, calls outside of any run."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

from artelier.errors import InsufficientFunds, RunSuspended
from artelier.ids import fresh_secret
from artelier.log.blobs import name_blob
from artelier.ports.embedder import Ask, paid_by


class DeskPayer:
    """A tenant: each text is asked for in a run of its own, so that what it costs is in the log.

    `name` is what these runs are called after. Under one name, a text is asked for and paid for once.
    """

    def __init__(self, desk: Any, name: str, *, asks_again: bool = False, scope: str = "") -> None:
        """`asks_again`: what could not be paid is asked for under the same name when there is money.

        `scope`: one whose cap holds for it too.
        """
        self._desk = desk
        self._name = name
        self._asks_again = asks_again
        self._scope = scope

    async def vectors(self, model: str, texts: Sequence[str], ask: Ask) -> Sequence[Sequence[float]]:
        """See `Payer.vectors`. Errors: `InsufficientFunds` too."""
        from artelier.kernel.limits.scopes import count_also, counters_of
        from artelier.kernel.steps.embedding_step import embed_step

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


def paid_by_person(desk: Any) -> AbstractContextManager[None]:
    """Have a tenant pay for what a person asks inside."""
    return paid_by(DeskPayer(desk, f"embedding:{fresh_secret(6).hex()}"))
