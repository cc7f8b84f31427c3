"""Launchers that only the tests have. Each is one class here, one shell part and one stub program beside it."""
