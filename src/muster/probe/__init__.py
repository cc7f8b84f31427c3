"""A launch with a probe in the place of its command: what every rank was given, held against the plan. Pure."""
