"""What is measured of the area `kernel`."""
