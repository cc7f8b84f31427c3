"""Is this place fit? Gatherers write facts as JSON, judges turn facts into findings.

`ranks/` runs on every node and stands alone; what lies beside it reads logs, draws, and packs `ranks/` into one file.
"""
