"""SASL exchanges, credentials and principals of clients. Sans-IO; TLS itself is in broker/server."""
