"""Proves the gate: how often it notices a broker that was made slower by so much, and how often one that was not.

For development, not shipped: it runs the broker of this checkout with a delay built in (`slow_broker`).
"""
