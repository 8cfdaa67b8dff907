"""Drill how long one hostile request makes other clients wait: the worst inputs of every API."""
