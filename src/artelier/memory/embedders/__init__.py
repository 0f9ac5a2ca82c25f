"""Embedders by name: `hashing` needs nothing, `minilm` a local model, `openai:MODEL` a network."""

from artelier.memory.embedders.minilm import install_model
from artelier.memory.embedders.registry import embedder_named, register_embedder

__all__ = ["embedder_named", "install_model", "register_embedder"]
