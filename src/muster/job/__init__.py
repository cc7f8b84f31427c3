"""WHAT you ask for: options (one field, one option, one help line) and the request made of them."""
