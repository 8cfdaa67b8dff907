"""Highwater, as it is imported: `highwater.broker`, `highwater.bench`, … are links to the folders of the repository."""
