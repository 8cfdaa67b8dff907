"""Pipelines on Hadoop's YARN: its own mini cluster, a ResourceManager and a NodeManager that start containers."""
