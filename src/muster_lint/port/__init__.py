"""A batch script of any Slurm site → the request that it means, and the same job at another site. Runs nothing."""
