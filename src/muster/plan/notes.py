"""What the user should know before pressing return, gathered from all that was decided. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from muster.facts import Facts
from muster.images import TRIED_CLOSED
from muster.job.request import Request
from muster.launchers.base import Launcher
from muster.model.plan import Engine, ImageUse, Note
from muster.model.words import Word
from muster.plan.asked import Asked
from muster.plan.environment import Environment, left_over, stays_behind
from muster.plan.launcher import LaunchTerms
from muster.plan.site_terms import forks_may_crash, site_notes
from muster.plan.size import Size
from muster.sites.site import Site
from muster.sites.when import workloads_of
from muster.slurm.flags import unknown_flags


def notes_before(
    asked: Asked, facts: Facts, news: str | None, size: Size, launch: LaunchTerms, environment: Environment
) -> Iterator[Note]:
    """Yield what the request itself makes worth knowing: its command, its site, what it leaves behind."""
    if news:
        yield Note(news)
    yield from site_notes(asked.site, asked.request, size.shape, launch.job, launch.queue)
    yield from (Note(sentence, warning=True) for sentence in unknown_flags(asked.flags))
    yield from _little_memory(asked)
    yield from left_over(asked.request, facts)
    if asked.engine is Engine.SLURM and not asked.within:
        yield from _unread(asked, facts)
    if asked.queued:
        yield from stays_behind(asked.request, facts, environment.variables)
        yield from _unsaved(asked.request)


def _unsaved(request: Request) -> Iterator[Note]:
    """Yield that the jobs of --until-done may each begin from nothing: what the script saves by itself is not known."""
    if request.until_done and not request.checkpoint:
        text = "no --checkpoint: a script that saves nothing by itself begins from nothing in each of up to"
        yield Note(f"{request.origin('until_done')}: {text} {request.links} jobs")


_FEW_MIB = 1024


def _little_memory(asked: Asked) -> Iterator[Note]:
    """Yield how a small --mem is read: to Slurm a number without a unit is MiB, and people mean GiB."""
    memory = asked.request.mem
    if asked.has_header and memory is not None and 0 < memory.mib < _FEW_MIB:
        text = f"{asked.request.origin('mem')}: {memory.mib} MiB of a node are few for a training"
        yield Note(f"{text}; --mem {memory.mib}G is {memory.mib} GiB", warning=True)


_READ_BY_SLURM = {"ACCOUNT": "account", "PARTITION": "partition", "QOS": "qos", "TIMELIMIT": "time"}
"""What users set in their shells for sbatch (SBATCH_ACCOUNT) and salloc, and the option of the same."""


def _unread(asked: Asked, facts: Facts) -> Iterator[Note]:
    """Yield what the shell sets for Slurm's own commands: it would beat the plan, so it is not handed on."""
    program = "SBATCH" if asked.queued else "SALLOC"
    for word, field in _READ_BY_SLURM.items():
        name = f"{program}_{word}"
        value = facts.environment.get(name)
        if value and getattr(asked.request, field) is None:
            yield Note(f"{name}={value} of your shell is not used: --{field} {value} asks for it")


def notes_of_files(
    asked: Asked, facts: Facts, image: ImageUse, command: Sequence[Word], staging_notes: Iterable[Note], *, gpus: int
) -> Iterator[Note]:
    """Yield what to know of the files that the ranks see: copies, and an image."""
    if asked.request.snapshot and not asked.queued:
        yield Note("--snapshot is for jobs that wait: this one starts now, from the files as they are")
    yield from staging_notes
    if image.image is not None:
        from muster.plan.image_paths import image_notes

        yield from image_notes(image, facts.image, (*command, *asked.request.env), gpus=gpus)
        if asked.request.closed and image.engine not in TRIED_CLOSED:
            inside = "" if image.program else ": its image has to hold Python 3.6 or later"
            yield Note(f"--closed was not tried with {image.engine}{inside}", warning=True)


def notes_of_size(asked: Asked, size: Size, launcher: Launcher) -> Iterator[Note]:
    """Yield what the site says to everybody, and what is odd in the numbers."""
    request, site, engine, shape, node = asked.request, asked.site, asked.engine, size.shape, size.node
    yield from (Note(text) for text in site.notes)
    if engine is Engine.HERE and shape.nodes > 1:
        ranks = f"{shape.ntasks_per_node} rank{'s' * (shape.ntasks_per_node != 1)}"
        yield (Note(f"simulated: {shape.nodes} nodes of {ranks} each, all of them on this machine"))
    if launcher.many_nodes_note and shape.nodes > 1:
        yield (Note(launcher.many_nodes_note))
    if node.gpus and not shape.gpus_per_node and not request.given("gpus_per_node"):
        text = f"no GPU is asked for, but a node here has {node.gpus}: -g {node.gpus}, or -g 0"
        yield Note(text, warning=site.is_described)
    if node.gpus == 0 and node.cpus and shape.cpus_per_task is None and engine is Engine.SLURM and not asked.within:
        yield Note(f"no -c is given, so Slurm decides how many CPUs a rank has, mostly 1: a node has {node.cpus}")
    if request.visibility == "one":
        text = "--visibility one: a script that says set_device(LOCAL_RANK) fails on every rank but 0"
        yield Note(text, warning=True)
    has_trial_queue = any(rule.when.trial for rule in site.profile.queue_rules)
    if request.trial and not has_trial_queue and "partition" not in asked.reasons:
        yield (Note(f"--trial: the profile of {site.name} names no queue for trials", warning=True))
    if request.time is not None and 0 < (request.time.seconds or 0) < 60:
        seconds = request.time.seconds
        text = f"{request.origin('time')} is {seconds} seconds: with one colon Slurm reads minutes:seconds"
        yield Note(f"{text}; {seconds} minutes are -t {seconds}", warning=True)
    if request.time is not None and request.time.seconds == 0:
        yield (Note("a time limit of 0 means unlimited to Slurm; many sites refuse it", warning=True))


def notes_of_nodes(asked: Asked, facts: Facts, size: Size) -> Iterator[Note]:
    """Yield what the script and the record of its environment say against the nodes of this site."""
    if facts.forking_loaders and forks_may_crash(asked.site, asked.request, asked.engine):
        yield _of_forks(asked.site, facts.forking_loaders)
    if facts.venv is not None:
        from muster.plan.built_with import differences, nodes_of

        found = differences(facts.venv, nodes_of(asked, facts, size.shape))
        yield from (Note(text, warning=True) for text in found)


def _of_forks(site: Site, loaders: Sequence[str]) -> Note:
    """Return a warning that names the first data loader whose workers are forked, and the two lines that fix it."""
    rest = f" and {len(loaders) - 1} more" if len(loaders) > 1 else ""
    unchanged = "; the script unchanged: --workload fork" if "fork" in workloads_of(site.profile) else ""
    text = (
        f"{loaders[0]}{rest}: its workers are forked (before Python 3.14), and beside an open Slingshot card a forked "
        "worker may crash (pytorch #119845)\n\n"
        "hint: two lines fix it, first under if __name__ == '__main__': import torch.multiprocessing and "
        f"torch.multiprocessing.set_start_method('forkserver'); world.loader() does it by itself{unchanged}"
    )
    return Note(text, warning=True)
