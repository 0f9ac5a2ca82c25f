"""Reads of the tables of worlds, as frozen rows: worlds and agents, the market, memory stores, histories."""
