"""Faults of batch scripts and of the training scripts that they start, found by reading. Runs nothing."""
