"""One file per API. Each has `handle(node, context, request)`; those with a codec of their own also have `decode`."""
