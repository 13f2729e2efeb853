"""`weft run maxwell`."""
