"""Topics in and out of PySpark without a client in the JVM."""
