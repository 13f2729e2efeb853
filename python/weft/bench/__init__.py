"""Measuring: the Poisson benchmark, its operator alone, scaling sweeps, and the formulas their figures come from."""
