"""The package that highwater-kafka installs: its subpackages are links to folders of the repository."""
