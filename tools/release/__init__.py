"""Builds what is published, twice and from a clean clone, and tests each file from the file alone: `make release`.

A kind of artefact is one entry of KINDS in `__main__.py`: a function that builds files, and one that tests a file.
"""
