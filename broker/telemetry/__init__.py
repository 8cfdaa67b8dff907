"""Client telemetry (KIP-714): what clients are asked to measure, and what becomes of what they push."""
