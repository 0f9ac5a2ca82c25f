"""The record of what was sent for a model call, as the event that ends the call holds it."""

from __future__ import annotations

from artelier.ledger import Moving


class Sent(Moving, frozen=True, kw_only=True, omit_defaults=True):
    """The end of a model call, with what its adapter has sent."""

    adapter: str = ""
    """Name and version of the adapter that sent the request; empty if it does not say."""
    body: str = ""
    """Keyed hash of the HTTP body that was sent; empty if none was."""
    not_sent: tuple[str, ...] = ()
    """Parameters of the request that the body does not hold, since the provider takes none such."""
