"""Proves the gate: how often it notices a broker that was made slower, and how often it errs.

For development, not shipped: it runs the broker of this checkout with a delay built in (`slow_broker`).
"""
