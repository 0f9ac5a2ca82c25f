"""Settings: `artelier.toml`, the environment over it, and where each value comes from."""
