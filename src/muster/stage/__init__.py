"""Data and environments on the nodes' own disks: packed once, fetched once by each node, verified, used from there."""
