"""Changes of a cluster that an operator asks for on a page: shown first, carried out when confirmed."""
