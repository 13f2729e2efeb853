"""Predictions of what a run would cost on another machine, one module per method.

The methods read run records and traces and never import the solvers.
"""
