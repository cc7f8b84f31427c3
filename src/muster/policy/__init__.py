"""WHAT A SITE MAKES OF A REQUEST: the queue it goes to, what is refused, the cores that a GPU has. Pure."""
