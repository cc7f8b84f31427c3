"""The life of a job as one machine: attempts, links, spare nodes, saves, hangs and cancellations. Pure."""
