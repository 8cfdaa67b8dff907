"""The wire driver: record batches prepared beforehand, sent by hand over plain sockets; what a broker can take.

No client library stands between: no keys, no transactions, no TLS, values of one size. What it
can be told is in `settings`; its face is `producer.WireProducer`.
"""
