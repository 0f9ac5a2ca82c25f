"""What is measured of the area `server`."""
