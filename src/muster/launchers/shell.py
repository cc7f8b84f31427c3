"""shell: one task with a terminal of its own, for `muster shell`. Not a way to start ranks, so nobody chooses it."""

from __future__ import annotations

from collections.abc import Iterator

from muster.launchers.base import Launcher, Prologue, Wrap
from muster.model.plan import Flag, Plan, Reason
from muster.model.words import Fragment, Word, fold

# An image that is a file is mounted through FUSE; where users may not, the engine unpacks it for the shell.
UNPACKED = '[ -w /dev/fuse ] || export APPTAINER_UNSQUASH=1 SINGULARITY_UNSQUASH=1; exec "$@"'


class Shell(Launcher):
    """A terminal on the first node of the job."""

    name = "shell"
    in_options = False
    in_profiles = False
    chosen_because = "a terminal on the first node"
    starts_ranks = False

    @property
    def site_name(self) -> str | None:
        return None

    def prologues(self, plan: Plan) -> tuple[Prologue, ...]:
        del plan
        return ()

    def flags(self, plan: Plan) -> tuple[Flag, ...]:
        flags = [
            Flag(Fragment("${muster_pty:+--pty}"), Reason("a terminal, with job control, where this is one")),
            Flag("--nodes=1", Reason("the first node of the job")),
            Flag("--ntasks=1", Reason("one shell")),
            Flag("--overlap", Reason("steps that are started from the shell share its resources")),
            Flag("--export=ALL", Reason("the environment that this script has set up")),
            Flag("--mpi=none", Reason("a shell is not a rank")),
        ]
        if plan.shape.cpus_per_task:
            flags.append(
                Flag(Fragment('--cpus-per-task="$muster_cpus_per_task"'), Reason("the cores that were asked for"))
            )
        return (*flags, *plan.step_flags)

    def words(self, plan: Plan, wrap: Wrap) -> tuple[Word, ...]:
        opened = ("sh", "-c", UNPACKED, "muster") if plan.image.may_be_unpacked else ()
        return ("srun", *(flag.word for flag in self.flags(plan)), *opened, *wrap(plan.command))

    def step(self, plan: Plan, words: tuple[Word, ...]) -> Iterator[str]:
        """Yield the step with nothing of Muster between it and its terminal."""
        del plan
        yield "muster_pty='' && [ ! -t 0 ] || muster_pty=yes"
        yield f"exec {fold(words)}"
