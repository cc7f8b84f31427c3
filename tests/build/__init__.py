"""Environments that are made: real builds where they are short, and what is said where one cannot be."""
