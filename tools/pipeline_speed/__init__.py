"""Speed of sources and sinks of pipelines beside what others use: `make bench-pipeline`."""
