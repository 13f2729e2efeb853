"""Showing what was measured: text for a terminal, plots, and one self-contained HTML page."""
