"""Slurm as text in and text out: directives, argv, parsers. Runs nothing."""
