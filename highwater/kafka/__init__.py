"""Kafka's protocol, record batches, logins and clients, for every room."""

from highwater.common.compiled import install_finder

install_finder()
