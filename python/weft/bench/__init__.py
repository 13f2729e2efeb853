"""Benchmarks of the parts of weft, and scaling sweeps of its workloads."""
