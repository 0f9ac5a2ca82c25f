"""One search with several detectors: where they disagree, the longer value counts, then the surer kind."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from artelier.errors import InvalidRequest
from artelier.pii.detectors.card import Cards
from artelier.pii.detectors.email import Emails
from artelier.pii.detectors.iban import Ibans
from artelier.pii.detectors.ip import Ips
from artelier.pii.detectors.national.ids import NationalIds
from artelier.pii.detectors.phone import Phones
from artelier.pii.detectors.secret import Secrets
from artelier.pii.detectors.text_view import Shipped, TextReading
from artelier.ports.pii import Detector, Found


def shipped() -> tuple[Detector, ...]:
    """The detectors that come with Artelier, the most certain first."""
    return (Secrets(), Ibans(), Cards(), Emails(), NationalIds(), Ips(), Phones())


def find_all(detectors: Sequence[Detector], text: str) -> list[Found]:
    """Return what the detectors find in the text: ascending, no two overlap.

    Of two that overlap the longer is kept, of two as long that of the detector which stands first.
    Errors: what a detector raises; `InvalidRequest` if one answers with a place outside the text or another
    kind. Then the text was not searched whole and may not be sent on.
    Cost: about 30 µs for 1,000 characters of prose with the shipped ones, which read the text together.
    """
    reading = TextReading(text)
    ranked: list[tuple[int, int, Found]] = []
    for rank, detector in enumerate(detectors):
        if isinstance(detector, Shipped):
            ranked.extend((found.start - found.end, rank, found) for found in detector.read(reading))
        else:
            ranked.extend((found.start - found.end, rank, found) for found in _find_checked(detector, text))
    if len(ranked) < 2:
        return [found for _, _, found in ranked]
    ranked.sort()
    return sorted(_apart(ranked, len(text)))


def _apart(ranked: Sequence[tuple[int, int, Found]], length: int) -> Iterator[Found]:
    """Yield those that overlap none before them, the longest first. Cost: O(length + findings)."""
    taken = bytearray(length)
    for _, _, found in ranked:
        # None is longer than one that was taken before: where they overlap, one of its ends is in that.
        if not (taken[found.start] or taken[found.end - 1]):
            taken[found.start : found.end] = b"\1" * (found.end - found.start)
            yield found


def _find_checked(detector: Detector, text: str) -> Iterable[Found]:
    for found in detector.find(text):
        if not (0 <= found.start < found.end <= len(text)) or found.kind != detector.kind:
            raise InvalidRequest(
                f"the detector of {detector.kind} answers with what is not in the text",
                expected=f"{detector.kind} within 0 to {len(text)}",
                got=f"{found.kind} from {found.start} to {found.end}",
            )
        if not found.normal:
            raise InvalidRequest(f"the detector of {detector.kind} gives a value without a normal form")
        yield found
