"""Environments, made once and proved: what a job will run in. Stands beside the lab, above `act`."""
