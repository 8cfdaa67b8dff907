"""Requests to brokers, a file for each API: the request, and its answer as values. Pure."""
