"""The versions that retention keeps."""

from __future__ import annotations

from typing import Annotated

import msgspec

from artelier.artifacts.queries import Standing
from artelier.artifacts.safe_repr import shown
from artelier.artifacts.write.space_session import Door
from artelier.errors import InvalidArtifact

_Number = Annotated[int, msgspec.Meta(ge=1, le=10**12)]


class Retention(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Rules as they stand under `retention` in metadata; None is no rule."""

    max_versions: _Number | None = None
    """The newest that stay."""
    ttl_s: _Number | None = None
    """Age in seconds from which older ones go."""

    @classmethod
    def parse(cls, value: object) -> Retention:
        """Errors: `InvalidArtifact`."""
        try:
            return msgspec.convert(value, cls)
        except msgspec.ValidationError as error:
            raise InvalidArtifact(
                f"invalid retention: {error}",
                expected="{max_versions, ttl_s}, each a number from 1 or null",
                got=shown(value),
            ) from None


async def first_kept(door: Door, standing: Standing, retention: Retention) -> int:
    """The oldest version that stays; the newest always does."""
    kept = standing.kept_from
    if retention.max_versions is not None:
        kept = max(kept, standing.version - retention.max_versions + 1)
    if retention.ttl_s is not None:
        rows = await door.store.query(
            "SELECT MIN(version) FROM artifact_versions"
            " WHERE tenant = ? AND space = ? AND id = ? AND written_us >= ?",
            (door.tenant, door.space, standing.id, door.clock.now_us() - retention.ttl_s * 1_000_000),
        )
        young = rows[0][0]
        kept = max(kept, standing.version if young is None else young)
    return min(kept, standing.version)
