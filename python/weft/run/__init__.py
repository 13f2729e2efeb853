"""The implementation of `weft run`: set up a case, solve or step, and record.

Each workload has a folder, and all folders have the same structure.
"""
