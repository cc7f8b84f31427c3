"""What measures, in every rank: the standard library, Python 3.8, torch inside functions.

This folder stands alone like `muster.rank`: it says `import muster` as a user's script does, and no more.
Only seconds and bytes leave it, as lines of JSON; bandwidths and verdicts are made on the login side.
"""
