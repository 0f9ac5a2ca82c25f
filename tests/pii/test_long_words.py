"""Words that are so long that they are data: they are looked through once, and blanked as before."""

from __future__ import annotations

import random
import re

from artelier.pii.detectors import text_view

EVERYWHERE = re.compile(r"[A-Za-z0-9+/_=-]{1000,}")
"""What is blanked, looked for at every character: slow, and plain."""


def test_words_of_data_are_blanked_wherever_they_stand() -> None:
    draws = random.Random(7)
    for _ in range(300):
        words = ["a" * draws.choice((1, 400, 999, 1000, 1001, 2500)) for _ in range(6)]
        text = "".join(word + draws.choice((" ", "\n", "é", "-", "")) for word in words)
        blanked = EVERYWHERE.sub(lambda found: " " * len(found[0]), text)
        assert text_view.view_of(text).text == (blanked if len(text) >= 1000 else text)
