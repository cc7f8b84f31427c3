"""Where each rank of a running job stands: asked on its nodes, read, and folded into few lines."""
