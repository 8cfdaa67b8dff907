"""The monitor's pages: a login, tables and charts of one snapshot, and the same rows as CSV and JSON."""
