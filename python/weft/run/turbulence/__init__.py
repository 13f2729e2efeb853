"""`weft run turbulence`."""
