"""How tasks start inside an allocation: one short file per launcher, loaded when it is used. Runs nothing."""

from __future__ import annotations

from muster.launchers.base import Launcher

__all__ = ["Launcher", "launcher_named"]


def launcher_named(name: str) -> Launcher:
    """The launcher of a plan."""
    match name:
        case "srun":
            from muster.launchers.srun import Srun

            return Srun()
        case "torchrun":
            from muster.launchers.torchrun import Torchrun

            return Torchrun()
        case "mpirun":
            from muster.launchers.mpirun import Mpirun

            return Mpirun()
        case "mpirun+torchrun":
            from muster.launchers.torchrun import MpirunTorchrun

            return MpirunTorchrun()
        case "mpirun+horovod" | "srun+horovod":
            from muster.launchers.horovod import Horovod

            return Horovod(launcher_named(name.removesuffix("+horovod")))
        case "local":
            from muster.launchers.local import Local

            return Local()
        case "shell":
            from muster.launchers.shell import Shell

            return Shell()
    raise KeyError(name)
