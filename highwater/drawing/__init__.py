"""What pages of several rooms draw charts with: axes, plots as SVG, fewer points for more than fit."""
