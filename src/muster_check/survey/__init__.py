"""Ask a cluster what it is: a draft of its profile, and whether a profile holds there."""
