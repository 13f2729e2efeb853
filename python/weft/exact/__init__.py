"""Exact solutions for comparison with runs, as pure functions of time and place."""
