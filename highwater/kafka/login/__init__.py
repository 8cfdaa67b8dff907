"""How clients log in: mechanisms of SASL, credentials, tokens, JAAS. Sans-IO; the server's side is in broker."""
