"""Exact solutions that runs are compared with: pure functions of time and place."""
