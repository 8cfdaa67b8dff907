"""The package that pip installs: its subpackages are links to folders of the repository."""
