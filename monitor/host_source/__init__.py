"""Facts of hosts, from the agent on each of them (`highwater tune agent`)."""
