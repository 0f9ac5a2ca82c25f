"""What is measured of the area `pii`."""
