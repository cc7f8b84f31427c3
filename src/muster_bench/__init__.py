"""Bandwidth of the fabric: what the ranks measure (`ranks/`), and what the login side makes of it (the rest; pure)."""
