"""Checks: facts → findings, the ranks that gather them, and faults made for real."""
