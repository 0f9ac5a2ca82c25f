"""The commands `artelier torture` and `artelier bench`."""
