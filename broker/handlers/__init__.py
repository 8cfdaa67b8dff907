"""The handlers of requests, one file per API.

Each has `handle(node, context, request)`; a handler with its own codec also has `decode`.
"""
