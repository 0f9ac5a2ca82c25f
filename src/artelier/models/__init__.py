"""Models behind one port: scripted, recorded, offline, and every provider of the registry."""
