"""Offers, sales, bids and the mint."""
