"""Exactly once without Spark: a consumer whose offsets are in the database, beside its results."""

from highwater.pipeline.consumer.consumer import Consumer

__all__ = ["Consumer"]
