"""Poison for every decoder: any bytes are a value, or one error that names them."""
