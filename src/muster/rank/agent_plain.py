"""Starts a torchrun agent without its keeper: a script that did not read the keeper's text has this one.

Words and threads are those of the keeper (rank/agent_keeper.py); the ranks write into the agent's own streams.
"""

import os
import sys
from pathlib import Path

# As the keeper has them.
_OF_MPI = (
    *("OMPI_COMM_WORLD_", "OMPI_UNIVERSE_SIZE", "OMPI_MCA_orte_", "OMPI_MCA_ess", "OMPI_MCA_pmix"),
    *("PRTE_", "PMIX_", "PMI_", "PALS_", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
)

if __name__ == "__main__":
    command, (_, ranks, module, nodes, *meeting, more) = sys.argv[2:-10], sys.argv[-10:]
    agent = [sys.executable, "-m", module, nodes, "--nproc-per-node=" + ranks, *meeting, "--max-restarts=0"]
    flags = [line for line in more.split("\n") if line]
    # A rank that finds what an MPI told its agent takes it for its own.
    environment = {name: value for name, value in os.environ.items() if not name.startswith(_OF_MPI)}
    if environment.get("MUSTER_OMP") == "own":
        topology = "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list"
        files = [topology % cpu for cpu in os.sched_getaffinity(0)]
        cores = len({(os.access(file, os.R_OK) and Path(file).read_text()) or file for file in files})
        threads = min(cores // int(ranks), int(environment.get("MUSTER_CPUS") or 0) or cores)
        environment["OMP_NUM_THREADS"] = str(max(1, threads))
    rank = ["--no-python", *(word.replace("$", "$$") for word in command)]
    os.execve(agent[0], [*agent, *flags, *rank], environment)  # noqa: S606
