"""Words of other programs, read once: which of their options take a value, and where the command begins."""
