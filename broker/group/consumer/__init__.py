"""Consumer groups of the protocol of KIP-848, without sockets and clocks: records in, decisions out."""
