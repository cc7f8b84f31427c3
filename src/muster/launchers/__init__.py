"""How tasks start inside an allocation: one short file per launcher. Runs nothing."""

from __future__ import annotations

from muster.launchers.base import Launcher
from muster.launchers.horovod import Horovod
from muster.launchers.local import Local
from muster.launchers.mpirun import Mpirun
from muster.launchers.shell import Shell
from muster.launchers.srun import Srun
from muster.launchers.torchrun import MpirunTorchrun, Torchrun

__all__ = ["LAUNCHERS", "Launcher"]

_ALL: tuple[Launcher, ...] = (
    *(Srun(), Torchrun(), Mpirun(), MpirunTorchrun()),
    *(Horovod(Mpirun()), Horovod(Srun())),
    *(Local(), Shell()),
)

LAUNCHERS: dict[str, Launcher] = {launcher.name: launcher for launcher in _ALL}
