"""Groups: members, and what is shared with them."""
