"""What is measured of the area `memory`."""
