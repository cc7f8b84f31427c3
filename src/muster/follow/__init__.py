"""What follows a job that was started: what Slurm says of it, where its output lies, which rank failed first."""
