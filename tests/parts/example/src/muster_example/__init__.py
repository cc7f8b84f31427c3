"""One part of each kind for Muster. The profile of the site lies beside this file."""
