"""A private, real Slurm cluster of virtual hosts on this machine, without root and without Docker."""
