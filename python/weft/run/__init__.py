"""What `weft run` does: sets a case up, solves or steps, and records. One folder per workload, all of one shape."""
