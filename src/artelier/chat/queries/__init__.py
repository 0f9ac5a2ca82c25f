"""Reads of chats: their branches and sessions, the tree of turns, versions of artifacts."""
