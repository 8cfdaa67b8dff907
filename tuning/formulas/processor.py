"""Values for processors: clocks, interrupts, isolation."""
