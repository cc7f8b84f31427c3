"""What a check looks at, and what it makes of it: Python 3.8, standard library, no other room; works copied out alone.

facts.py      what a rank and a node are told of: the shape of the JSON
gather.py …   gatherers: read the machine, judge nothing
variables.py … judges: facts → findings; pure
table.py      every check there is
exchange.py   the ranks meet rank 0: facts, clocks, speed of the links
gate.py       before the user's code: gather, meet, judge, stop
"""
