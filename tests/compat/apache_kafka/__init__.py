"""Apache Kafka 3.9's own command line tools as judges of our broker and of our files."""
