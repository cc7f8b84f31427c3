"""The plan and its parts as values: what all other rooms speak of. Decides nothing, runs nothing."""
