"""The steps of a program's calls: their keys stay what they were, so that recorded answers are found."""

from __future__ import annotations

import asyncio
import json
from hashlib import sha256
from pathlib import Path

import pytest

from artelier import Kernel
from artelier.log.blobs import make_blob
from artelier.server.openai_api.calls import ESCAPED_BYTES_MAX, RUN, SessionCounts, place_of


@pytest.mark.parametrize(("count", "is_escaped"), [(3, True), (ESCAPED_BYTES_MAX // 2, False)])
def test_the_key_of_a_call_is_the_hash_of_its_body_in_one_spelling(
    tmp_path: Path, count: int, is_escaped: bool
) -> None:
    asked = {"model": "m", "messages": [{"role": "user", "content": "é" * count}], "a": 1}
    body = json.dumps(asked | {"stream": True}, ensure_ascii=False).encode()
    spelling = json.dumps(asked, sort_keys=True, separators=(",", ":"), ensure_ascii=is_escaped).encode()

    async def main() -> None:
        with Kernel.open(tmp_path / "s.db", environ={}) as kernel:
            desk = kernel.for_tenant()
            place = await place_of(desk, SessionCounts(), {RUN: "nightly"}, body)

            ref, _ = make_blob(desk.id, (await desk.state()).key, spelling)
            assert place.key == f"call-{sha256(str(ref).encode()).hexdigest()[:32]}-0"

    asyncio.run(main())
