"""Commands for the database and for those who build Artelier."""
