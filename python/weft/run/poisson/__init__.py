"""`weft run poisson`."""
