"""Samples the host during a trial, also the hosts of a cluster elsewhere."""
