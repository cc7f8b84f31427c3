"""Run a plan now: its script inside an allocation, or in one that salloc holds around it."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, NoReturn

from muster.errors import SiteError
from muster.launchers import launcher_named
from muster.launchers.base import Starter
from muster.model.plan import Plan
from muster.plan.secret import variables_to_hand_over
from muster.render.script import job_script
from muster.runner import become, run
from muster.slurm.variables import scheduler_environment

if TYPE_CHECKING:
    from muster.act.keep import Kept

# Beyond the grace time that the ranks have, for launchers to report.
_REPORT_S = 3.0


def run_within(plan: Plan, environment: Mapping[str, str], say: Callable[[str], None] = lambda _: None) -> Kept:
    """Run the script over the allocation that this process stands in, and return what became of it."""
    from muster.act.keep import keep

    given = {**environment, **variables_to_hand_over(plan)}
    patience_s = plan.grace_s + _REPORT_S
    return keep(job_script(plan), given, patience_s=patience_s, in_pieces=_is_in_pieces(plan), say=say)


def _is_in_pieces(plan: Plan) -> bool:
    return plan.label and launcher_named(plan.launcher).labels_pieces


def run_allocated(
    plan: Plan,
    environment: Mapping[str, str],
    *,
    say: Callable[[str], None],
    wait_words: Callable[[str], str],
) -> Kept:
    """Run the script in an allocation that salloc asks for, holds while the script runs, and gives back.

    `wait_words` says why a job waits; `say` is told that, and where the job runs.
    """
    from muster.act.keep import KeepSettings, keep_allocated
    from muster.slurm.allocation import hold_nodes
    from muster.slurm.submit import parse_rejection

    clean, script = _asked_before(plan, environment, say)
    kept, refusal = keep_allocated(
        hold_nodes(plan.directives),
        script,
        {**clean, **variables_to_hand_over(plan)},
        KeepSettings(
            plan.grace_s + _REPORT_S,
            say,
            wait_words,
            steps_of_slurm=launcher_named(plan.launcher).starter(plan.engine) is Starter.STEP,
            in_pieces=_is_in_pieces(plan),
        ),
    )
    if not kept.started and kept.signal is None:
        from muster.act.refusal import silence_of
        from muster.slurm.silence import is_silent

        words = "\n".join(refusal)
        if is_silent(words) or not words.strip():
            raise silence_of("salloc", kept.status, words)
        rejection = parse_rejection(words)
        raise SiteError(rejection.sentence, hint=rejection.hint)
    return kept


def _asked_before(plan: Plan, environment: Mapping[str, str], say: Callable[[str], None]) -> tuple[dict[str, str], str]:
    """Return the environment for Slurm's clients, and the script.

    salloc would wait for nodes that will never be, and refuse with status 1 and no hint: sbatch is asked first.
    """
    from muster.act.refusal import check_taken, misfit_of
    from muster.slurm.submit import ask_whether_taken

    clean = scheduler_environment(environment)
    script = job_script(plan)
    trial = partial(run, ask_whether_taken().argv, env=clean, cwd=plan.working_directory, stdin=script, timeout_s=30)
    check_taken(trial, partial(misfit_of, plan, run, clean), say)
    return clean, script


def become_shell(
    plan: Plan,
    environment: Mapping[str, str],
    *,
    within: bool,
    say: Callable[[str], None],
) -> NoReturn:
    """Become the script of a shell: nothing of Muster stays between the shell and its terminal."""
    from muster.act.keep import script_in_memory

    _append_errors()
    if within:
        clean, script, before = dict(environment), job_script(plan), []
    else:
        from muster.slurm.allocation import hold_nodes

        clean, script = _asked_before(plan, environment, say)
        before = hold_nodes(plan.directives, quiet=True)
    memory = script_in_memory(script)
    os.dup2(memory, 3)
    os.set_inheritable(3, True)  # dup2 does not where the memory is number 3 itself
    become([*before, "bash", "/dev/fd/3"], {**clean, **variables_to_hand_over(plan)})


def _append_errors() -> None:
    """Let all who write to stderr do so at its end, where stderr is a file.

    srun opens it once more for the ranks and appends; the script's own lines, at the place where they were before,
    would overwrite what ranks said.
    """
    try:
        if stat.S_ISREG(os.fstat(2).st_mode):
            import fcntl

            fcntl.fcntl(2, fcntl.F_SETFL, fcntl.fcntl(2, fcntl.F_GETFL) | os.O_APPEND)
    except OSError:  # it is closed, or of a kind that knows no flags
        return
