"""Who a client is: SASL exchanges, credentials and principals. Sans-IO; TLS itself is in broker/server."""
