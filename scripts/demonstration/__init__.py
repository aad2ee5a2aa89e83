"""What scripts/demo runs: two kvtier nodes, workers on both, and the table of what they reused."""
