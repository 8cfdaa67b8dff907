"""`highwater advise`: the best settings for an aim, searched and confirmed by measurement."""
