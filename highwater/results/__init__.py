"""The result directory: its models, its writer and its reader, and nothing else knows its file names.

Layout and field names follow docs/architecture.md ("The result directory"). Everything a report shows can be made again
from these files.
"""
