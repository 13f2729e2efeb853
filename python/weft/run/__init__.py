"""The implementation of `weft run`: set up a case, solve or step, and record. One folder per workload, all alike."""
