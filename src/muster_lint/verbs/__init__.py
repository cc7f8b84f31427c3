"""The verbs of this package, one file each."""
