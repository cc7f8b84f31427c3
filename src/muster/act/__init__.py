"""The only part that touches the world: processes, files, the scheduler."""
