"""What is measured of the area `world`."""
