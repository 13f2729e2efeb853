"""`weft run flow`."""
