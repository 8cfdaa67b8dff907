"""Load by native clients, which cost the host little.

programs.py compiles the C sources of this folder, librdkafka.py fetches and builds librdkafka with its
rdkafka_performance, clients.py runs them. bare_loop.c is no client: it is the floor under every broker
(bench/systems/bare_loop.py).
"""
