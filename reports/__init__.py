"""Result directories in, self-contained HTML out."""
