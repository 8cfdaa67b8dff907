"""A micro-batch into a table of Delta Lake or Apache Iceberg, by the libraries of these formats."""
