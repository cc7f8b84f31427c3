"""The rules, one file for each part of a script. Each rule has its own bad and good example."""
