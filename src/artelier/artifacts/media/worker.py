"""The helper process that opens PDFs: how many pages they have, and their text."""

from __future__ import annotations

import base64
import io
import json
import logging
import warnings
from typing import TYPE_CHECKING, Any

import msgspec

from artelier.child import HelperFailure
from artelier.child_loop import MIB, serve
from artelier.ports.media import PdfText

if TYPE_CHECKING:
    from pypdf import PdfReader

MEMORY_BYTES_MAX = 1536 * MIB
"""Address space: the library with its tables, and what a PDF of 20 MB unfolds into."""


def main() -> None:
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)  # the library tells of each oddity that it forgives

    def answer(message: dict[str, Any]) -> tuple[bytes, bool]:
        return json.dumps(msgspec.to_builtins(_answer(message))).encode(), True

    serve(answer, memory_bytes_max=MEMORY_BYTES_MAX)


def _answer(message: dict[str, Any]) -> PdfText | HelperFailure:
    if not message["pdf"]:
        return PdfText(pages=0, text="")
    try:
        from pypdf import PdfReader

        reader = PdfReader(io.BytesIO(base64.b64decode(message["pdf"])))
        if reader.is_encrypted and not reader.decrypt(""):
            return HelperFailure(failed="password")
        return _content(reader, message["pages_max"], message["text_bytes_max"])
    except MemoryError:
        return HelperFailure(failed="too_large", message="it needs too much memory")
    except RecursionError:
        return HelperFailure(failed="broken", message="it is nested too deeply")
    except Exception as error:  # whatever the library raises on what it does not understand
        return HelperFailure(failed="broken", message=f"{type(error).__name__}: {error}"[:200])


def _content(reader: PdfReader, pages_max: int, text_bytes_max: int) -> PdfText | HelperFailure:
    count = len(reader.pages)
    if not 0 < count <= pages_max:
        return HelperFailure(failed="pages", message=f"it has {count} pages, expected 1 to {pages_max}")
    texts: list[str] = []
    left = text_bytes_max
    for page in reader.pages:
        text = page.extract_text().encode("utf-8", "replace").decode()
        left -= len(text.encode())
        if left < 0:
            return HelperFailure(failed="text", message=f"its text is longer than {text_bytes_max} bytes")
        texts.append(text)
    shown = [f"[page {number}]\n{text}" for number, text in enumerate(texts, 1) if text.strip()]
    return PdfText(pages=count, text="\n\n".join(shown))


if __name__ == "__main__":
    main()
