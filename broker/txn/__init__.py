"""Transactions: a state machine for each transactional id, and their coordinator."""
