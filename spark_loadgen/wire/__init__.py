"""The wire driver: a fast producer on plain sockets, without a client library.

It prepares record batches in advance, to find out how much a broker can take. It has no keys, no transactions and no
TLS, and all values have one size. `settings` has its properties, `producer.WireProducer` is its interface.
"""
