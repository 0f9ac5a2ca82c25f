"""Export of runs into files, and import from them."""
