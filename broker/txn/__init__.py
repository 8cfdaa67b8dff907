"""Transactions: a state machine per transactional id, and the coordinator that keeps them in `__transaction_state`."""
