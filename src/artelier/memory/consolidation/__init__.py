"""The background step that tidies a memory."""
