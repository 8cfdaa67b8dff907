"""The only room with an event loop, sockets, threads and signals."""
