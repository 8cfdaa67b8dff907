"""The agent of a host: serves what a monitor wants to know of it (`highwater tune agent`)."""
