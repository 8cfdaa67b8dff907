"""The load generator: producer and consumer load from Spark executors or plain processes.

It needs `common` and the histogram of `results`, which Spark ships to executors with it.
"""
