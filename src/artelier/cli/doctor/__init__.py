"""`artelier doctor`: whether this machine has what Artelier needs."""
