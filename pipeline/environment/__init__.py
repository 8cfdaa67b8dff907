"""`highwater pipeline environment`: what tasks import, as a folder and an archive for executors."""
