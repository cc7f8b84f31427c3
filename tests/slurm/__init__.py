"""Tests of Slurm as text in and text out."""
