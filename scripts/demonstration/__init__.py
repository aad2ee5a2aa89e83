"""The parts of scripts/demo: two kvtier nodes, workers on both, and the table of what they reused."""
