"""Settings of topics, brokers and clients that change while the broker runs."""
