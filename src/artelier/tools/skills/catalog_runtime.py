"""The place where a catalogue works: the kernel's services, known once it was asked for a listing."""

from __future__ import annotations

from artelier.errors import InvalidRequest
from artelier.kernel import Services


class CatalogPlace:
    """The kernel that a catalogue serves; a later one takes the place of an earlier one."""

    def __init__(self) -> None:
        self._services: Services | None = None

    @property
    def services(self) -> Services:
        if self._services is None:
            raise InvalidRequest("this catalogue of skills was not opened", hint="Ask for its listing first.")
        return self._services

    def move(self, services: Services) -> bool:
        """Serve this kernel; True if the store is another one than before."""
        is_new = self._services is None or self._services.store is not services.store
        self._services = services
        return is_new
