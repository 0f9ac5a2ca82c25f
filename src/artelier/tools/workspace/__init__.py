"""Tools over one folder: files, search, tables."""
