"""The lake: the figures of thousands of runs as Parquet files, and questions about them.

docs/lake.md is the page for users. Result directories are read through `results` alone.
"""
