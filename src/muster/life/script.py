"""One run of the job's script, for an attempt or for a role: how it is started, awaited, and its steps signalled.

Standard library only, Python 3.6.
"""

import subprocess
from typing import Any, Mapping, Optional, Sequence

from muster.life import asking
from muster.life.loop import start_aside


class RunningScript:
    """The script while it runs: its process, and the steps that it starts."""

    def __init__(self, job: str, own: str) -> None:
        self._job, self._own = job, own
        self.child: Optional["subprocess.Popen[bytes]"] = None

    def start_script(self, words: Sequence[str], environment: Mapping[str, str], **streams: Any) -> None:
        """Start the script with these words, and wait for its end in a thread."""
        self.child = subprocess.Popen(["bash", *words], env=dict(environment), **streams)
        self.script_began(self.child)
        start_aside(self._await, self.child)

    def script_began(self, child: "subprocess.Popen[bytes]") -> None:
        """Do what comes before the first look at the end."""

    def _await(self, child: "subprocess.Popen[bytes]") -> None:
        code = child.wait()
        self.script_ended(128 - code if code < 0 else code, is_killed=code < 0)

    def script_ended(self, status: int, *, is_killed: bool) -> None:
        """Tell who steers, from the thread that has waited."""
        raise NotImplementedError

    def runs(self) -> bool:
        """Return whether the script was started and has not ended."""
        return self.child is not None and self.child.poll() is None

    def signal_steps(self, by: str) -> None:
        """Signal the steps, never the job itself: Slurm takes SIGKILL for its cancellation."""
        if self.child is None:
            return
        steps = asking.find_steps(self._job, self._own, asking.descendants(self.child.pid))
        if steps:
            asking.run(["scancel", "--quiet", "--signal=" + by, *steps], 60.0)
