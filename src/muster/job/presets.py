"""The names of the presets: programs that have a way of starting of their own (plan/presets.py knows each)."""

from __future__ import annotations

PRESETS = ("ray", "serve", "torchft", "dask")
