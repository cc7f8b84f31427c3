"""What runs in every rank: the standard library, Python 3.8, torch only inside functions.

This folder works copied out alone, so inside it imports are relative.
"""
