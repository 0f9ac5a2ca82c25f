"""What is measured of the area `context`."""
