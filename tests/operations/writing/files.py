"""Files as other programs write them, made here byte by byte."""

from __future__ import annotations

import base64
import json
import struct
import zlib
from typing import Any

SIGNATURE = b"\x89PNG\r\n\x1a\n"


def chunk(kind: bytes, data: bytes = b"", *, crc: int | None = None) -> bytes:
    checksum = zlib.crc32(kind + data) if crc is None else crc
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", checksum)


HEADER = chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0))
PIXELS = chunk(b"IDAT", zlib.compress(b"\x00\xff\x00\x00"))
END = chunk(b"IEND")


def text_chunk(keyword: str, card: Any) -> bytes:
    """A card (or bytes, as they are) in a tEXt chunk."""
    packed = card if isinstance(card, bytes) else base64.b64encode(json.dumps(card).encode())
    return chunk(b"tEXt", keyword.encode("latin-1") + b"\0" + packed)


def png(*chunks: bytes) -> bytes:
    """A picture of one red pixel, with these chunks before its end."""
    return SIGNATURE + HEADER + PIXELS + b"".join(chunks) + END


def encoded(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()


V1: dict[str, Any] = {
    "name": "Seraphina",
    "description": "{{char}} guards the glade. <b>{{user}}</b> {% raw %}",
    "personality": "kind",
    "scenario": "a forest",
    "first_mes": "*{{char}} smiles at {{user}}.*",
    "mes_example": "<START>\n{{user}}: hi\n{{char}}: hello",
}

BOOK: dict[str, Any] = {
    "name": "The glade",
    "scan_depth": 3,
    "token_budget": 500,
    "recursive_scanning": True,
    "extensions": {"tool/x": [1]},
    "entries": [
        {
            "keys": ["glade", " Eldoria "],
            "secondary_keys": ["night"],
            "selective": True,
            "content": "The glade shines.",
            "extensions": {
                "position": 4,
                "depth": 2,
                "role": 1,
                "selectiveLogic": 2,
                "probability": 40,
                "useProbability": True,
                "sticky": 2,
                "cooldown": None,
                "delay": 0,
                "match_whole_words": True,
                "exclude_recursion": True,
                "group": "",
                "display_index": 0,
                "tool/y": {"z": 1},
            },
            "enabled": True,
            "insertion_order": 7,
            "case_sensitive": True,
            "id": 3,
            "comment": "the glade",
        },
        {
            "keys": ["moon"],
            "content": "Full moon.",
            "extensions": {},
            "enabled": False,
            "insertion_order": 100,
            "position": "before_char",
            "priority": 5,
            "constant": True,
        },
    ],
}

V2: dict[str, Any] = {
    "spec": "chara_card_v2",
    "spec_version": "2.0",
    "data": {
        **V1,
        "creator_notes": "for grown-ups",
        "system_prompt": "You are {{char}}. {{original}}",
        "post_history_instructions": "stay in character",
        "alternate_greetings": ["Hello, {{user}}.", "Who is there?"],
        "tags": ["fantasy", "guardian"],
        "creator": "somebody",
        "character_version": "1.2",
        "extensions": {"talkativeness": "0.5", "world": "The glade"},
        "character_book": BOOK,
    },
}

V3: dict[str, Any] = {
    "spec": "chara_card_v3",
    "spec_version": "3.0",
    "data": {
        **V2["data"],
        "nickname": "Sera",
        "assets": [{"type": "icon", "uri": "ccdefault:", "name": "main", "ext": "png"}],
        "source": ["https://example.org/sera"],
        "group_only_greetings": [],
        "creation_date": 1700000000,
    },
}


def world_info(**entries: dict[str, Any]) -> bytes:
    """A World Info file with entries that say everything such files say."""
    usual: dict[str, Any] = {
        "key": [],
        "keysecondary": [],
        "comment": "",
        "content": "lore",
        "constant": False,
        "vectorized": False,
        "selective": True,
        "selectiveLogic": 0,
        "addMemo": True,
        "order": 100,
        "position": 0,
        "disable": False,
        "ignoreBudget": False,
        "excludeRecursion": False,
        "preventRecursion": False,
        "matchPersonaDescription": False,
        "delayUntilRecursion": 0,
        "probability": 100,
        "useProbability": True,
        "depth": 4,
        "outletName": "",
        "group": "",
        "groupOverride": False,
        "groupWeight": 100,
        "scanDepth": None,
        "caseSensitive": None,
        "matchWholeWords": None,
        "useGroupScoring": None,
        "automationId": "",
        "role": 0,
        "sticky": None,
        "cooldown": None,
        "delay": None,
        "triggers": [],
        "displayIndex": 0,
    }
    shards = {name: usual | {"uid": number, **entry} for number, (name, entry) in enumerate(entries.items())}
    return encoded({"entries": shards})
