"""Live events for many clients."""
