"""Values in Avro, Protobuf and JSON Schema as columns, with the schemas of a registry."""
