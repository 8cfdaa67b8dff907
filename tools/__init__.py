"""Programs that only developers of Highwater run; the wheel leaves this folder out.

They may import every room and the tests; no room imports them. Each says in its first lines what it measures.
"""
