"""Starts a torchrun agent without its keeper, with the keeper's words and threads; its ranks write into its streams."""

import os
import sys

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
        files = [f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list" for cpu in os.sched_getaffinity(0)]
        cores = len({(os.access(file, os.R_OK) and open(file).read()) or file for file in files})  # noqa: SIM115
        asked = int(environment.get("MUSTER_CPUS") or 0) or cores
        environment["OMP_NUM_THREADS"] = str(max(1, min(cores // int(ranks), asked)))
    rank = ["--no-python", *(word.replace("$", "$$") for word in command)]
    os.execve(agent[0], [*agent, *flags, *rank], environment)  # noqa: S606
