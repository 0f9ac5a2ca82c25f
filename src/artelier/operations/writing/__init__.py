"""Files of writers: characters, personas, lorebooks and chats, from and to the formats of other programs."""

from artelier.operations.writing.cards import Card, read_card, write_card
from artelier.operations.writing.chatlog import (
    ImportedChat,
    Message,
    Turn,
    Variant,
    read_chat,
    write_chat,
)
from artelier.operations.writing.forms import Character, Entry, Lorebook, Persona, read_form
from artelier.operations.writing.kinds import register_writing
from artelier.operations.writing.lorebooks import (
    Activation,
    Active,
    Dropped,
    activate,
    by_place,
    with_names,
)
from artelier.operations.writing.substitution import substituted
from artelier.operations.writing.worldinfo import read_world_info, write_lorebook

__all__ = [
    "Activation",
    "Active",
    "Card",
    "Character",
    "Dropped",
    "Entry",
    "ImportedChat",
    "Lorebook",
    "Message",
    "Persona",
    "Turn",
    "Variant",
    "activate",
    "by_place",
    "read_card",
    "read_chat",
    "read_form",
    "read_world_info",
    "register_writing",
    "substituted",
    "with_names",
    "write_card",
    "write_chat",
    "write_lorebook",
]
