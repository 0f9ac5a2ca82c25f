"""The prompts of tasks: what a task may see, section by section."""
