"""The plan as a script and as an explanation. Pure: same plan, same bytes."""
