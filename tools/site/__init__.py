"""The documentation as a static site: the Markdown files of the repository as they are, without a server."""
