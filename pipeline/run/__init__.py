"""Runs a pipeline that a file describes: sources, views in SQL or Python, flows into sinks."""
