"""Staging: packed once, verified on every node, or the shared copy for all."""
