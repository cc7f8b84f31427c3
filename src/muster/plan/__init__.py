"""WHAT WILL HAPPEN AND WHY: a frozen value, made of request, site and facts. Pure."""
