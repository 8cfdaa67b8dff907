"""Reports: a result directory in, a self-contained HTML page or Markdown out."""
