"""ft_launcher of NVIDIA's resiliency extension: torchrun's agents with a monitor beside each rank, which ends hangs."""

from __future__ import annotations

from muster.launchers.torchrun import Torchrun
from muster.model.plan import Reason, Variable
from muster.rank import contract

_MODULE = Reason("ft_launcher is this module of nvidia-resiliency-ext, which the environment has to have")
_OWN_SETTINGS = Reason("ft_launcher refuses to start without a settings file, unless it is told that there is none")


class Ft(Torchrun):
    """An ft_launcher per node, which starts the ranks as torchrun's agent does."""

    name = "ft"
    agent = "ft_launcher"
    in_profiles = False
    many_nodes_note = ""

    @property
    def site_name(self) -> str | None:
        return Torchrun.name

    def variables(self) -> tuple[Variable, ...]:
        """Return which program the agent is, and the word that it needs."""
        return (
            Variable(contract.AGENT_MODULE, "nvidia_resiliency_ext.fault_tolerance.launcher", _MODULE),
            Variable(contract.AGENT_NEEDS, "--ignore-missing-fault-tol-cfg", _OWN_SETTINGS),
        )
