"""Words as the index knows them: lower case, without accents and endings, irregular forms resolved."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from itertools import pairwise
from pathlib import Path

from artelier.memory.index.stemmer import stem

_LEXICON = Path(__file__).parent / "lexicon"
_WORD = re.compile(r"[^\W_]+(?:[.,]\d+)*")
_WIDE = re.compile("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]{2,}")
"""Runs of scripts that put no spaces between words."""


def words(text: str) -> list[str]:
    """The words of a text in their order, lower case and without accents; a possessive 's is dropped.

    Scripts without spaces give pairs of characters instead.
    """
    text = text.lower()
    if not text.isascii():
        text = unicodedata.normalize("NFKD", text.replace("’", "'"))
        text = "".join(letter for letter in text if not unicodedata.combining(letter))
        text = unicodedata.normalize("NFKC", text)
        text = _WIDE.sub(_pairs, text)
    return _WORD.findall(text.replace("'s", " ").replace("'", " "))


def terms(text: str) -> list[str]:
    """The words of a text as the index compares them, stop words dropped."""
    return [term_of(word) for word in words(text) if word not in stop_words()]


@lru_cache(maxsize=50_000)
def term_of(word: str) -> str:
    """One word's form in the index: its base form where it is irregular, then its stem."""
    return stem(_irregular().get(word, word))


@lru_cache(maxsize=1)
def stop_words() -> frozenset[str]:
    return frozenset(word for line in lexicon("stop") for word in line)


@lru_cache(maxsize=1)
def _irregular() -> dict[str, str]:
    return {form: base for base, *forms in lexicon("irregular") for form in forms}


def lexicon(name: str) -> list[list[str]]:
    """The lines of a word list that ships with the package, as lists of words."""
    lines = (_LEXICON / f"{name}.txt").read_text(encoding="utf-8").splitlines()
    return [line.split() for line in lines if line and not line.startswith("#")]


def _pairs(run: re.Match[str]) -> str:
    letters = run.group()
    return " ".join(f" {one}{two} " for one, two in pairwise(letters))
