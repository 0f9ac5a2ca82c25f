"""Files of writers: characters, personas, lorebooks and chats, from and to the formats of other programs."""

from artelier.operations.lore.activation import (
    Active,
    DroppedEntry,
    LoreActivation,
    activate,
    substitute_names,
    with_names,
)
from artelier.operations.lore.character_cards import Card, read_card, write_card
from artelier.operations.lore.chat_log import (
    ChatLogMessage,
    ChatLogTurn,
    ChatLogVariant,
    ImportedChat,
    read_chat,
    write_chat,
)
from artelier.operations.lore.schemas import (
    Character,
    Lorebook,
    LorebookEntry,
    Persona,
    read_form,
    register_writing,
)
from artelier.operations.lore.world_info import read_world_info, write_lorebook

__all__ = [
    "Active",
    "Card",
    "Character",
    "ChatLogMessage",
    "ChatLogTurn",
    "ChatLogVariant",
    "DroppedEntry",
    "ImportedChat",
    "LoreActivation",
    "Lorebook",
    "LorebookEntry",
    "Persona",
    "activate",
    "read_card",
    "read_chat",
    "read_form",
    "read_world_info",
    "register_writing",
    "substitute_names",
    "with_names",
    "write_card",
    "write_chat",
    "write_lorebook",
]
