"""Proves the advisor's search on synthetic surfaces, against random search and one factor at a time."""
