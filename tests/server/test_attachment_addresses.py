"""A text that names an attachment: a data URL or a ref, and nothing else, however long it is."""

from __future__ import annotations

import time

import pytest

from artelier.artifacts.ref import REF_CHARS_MAX, Ref
from artelier.errors import InvalidRequest
from artelier.server.deps import medium_at
from artelier.server.openai_api.requests import InlineMedium
from artelier.server.wire.base import AttachmentAsk

LONGEST = f"main:{'i' * 128}@{'9' * 15}#{'p' * 128}"


@pytest.mark.parametrize("ref", ["chart.png", "a:b/c@3#part", "x" * 128, LONGEST])
def test_what_may_be_a_ref_is_one(ref: str) -> None:
    assert medium_at(ref, param="attachments.0") == AttachmentAsk(ref)
    assert str(Ref.parse(ref, main_allowed=True)) == ref


def test_the_longest_ref_is_as_long_as_is_said() -> None:
    assert len(LONGEST) == REF_CHARS_MAX


def test_a_data_url_is_no_ref() -> None:
    found = medium_at("data:image/png;base64,AAAA", param="attachments.0")

    assert found == InlineMedium(param="attachments.0", media_type="image/png", encoded="AAAA")


@pytest.mark.parametrize("text", ["a" * 31_000_000, "a.b" * 10_000_000 + ":/"])
def test_a_text_too_long_for_a_ref_is_refused_at_once(text: str) -> None:
    began_s = time.process_time()
    with pytest.raises(InvalidRequest, match=f"a ref of at most {REF_CHARS_MAX} characters") as refused:
        medium_at(text, param="attachments.0")
    with pytest.raises(InvalidRequest, match="invalid artifact id"):
        Ref.parse(text)

    assert refused.value.facts["param"] == "attachments.0"
    assert time.process_time() - began_s < 0.1  # 0.4 where all of it was looked at
