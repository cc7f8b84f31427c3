"""What `muster` alone says: where this is, and what can be typed next here."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from muster.facts import Facts
    from muster.sites.site import Site


class Step(NamedTuple):
    """A command, and what it does here."""

    command: str
    help: str


def steps_page(width: int) -> str:
    """Return the page: a sentence on this place, and the commands."""
    import textwrap

    from muster.look.probe import look

    facts = look()
    place, steps = next_steps(facts, _script(Path(facts.working_directory)))
    lines = textwrap.wrap(place, width)
    for step in steps:
        text = textwrap.wrap(step.help, width - 6, break_on_hyphens=False)
        lines += ["", f"  {step.command}", *(f"      {line}" for line in text)]
    return "\n".join([*lines, "", "All verbs: muster --help"]) + "\n"


def next_steps(facts: Facts, script: str) -> tuple[str, list[Step]]:
    """Return what this place is, and the steps from here."""
    from muster.errors import SchedulerSilent
    from muster.look.cluster import with_cluster_name
    from muster.look.controller import SlurmHere, slurm_here
    from muster.look.place import stands_in_allocation
    from muster.sites.load import choose_site

    if stands_in_allocation(facts):
        job, nodes = facts.environment.get("SLURM_JOB_ID", ""), facts.environment.get("SLURM_JOB_NUM_NODES", "")
        size = f", {nodes} node{'s' * (nodes != '1')}" if nodes else ""
        return f"You are in the allocation of job {job}{size}.", list(_in_allocation(script))
    site = choose_site(None, with_cluster_name(facts))
    is_known = site.name not in {"generic", "laptop"}
    try:
        slurm = slurm_here(facts.environment)
    except SchedulerSilent as error:
        title = f"{error.message[:1].upper()}{error.message[1:]}."
        return title, list(_on_cluster(site, script, is_known=is_known))
    if slurm is SlurmHere.ANSWERS:
        title = f"This is {site.profile.title or site.name}." if is_known else "A Slurm cluster answers here."
        return title, list(_on_cluster(site, script, is_known=is_known))
    return f"{slurm.value[:1].upper()}{slurm.value[1:]}: ranks run on this machine.", list(_on_laptop(facts, script))


def _in_allocation(script: str) -> Iterator[Step]:
    yield Step("muster check", "are its nodes and the network between them fit? seconds")
    yield Step(f"muster run -- python {script}", "one rank for each GPU, on all of its nodes")
    yield Step(f"muster run --ntasks-per-node 2 -- python {script}", "two ranks on each node")


def _on_cluster(site: Site, script: str, *, is_known: bool) -> Iterator[Step]:
    required_options = "".join(f" {word}" for word in _required(site))
    yield Step("muster queues", "the partitions: limits, what is free, how many jobs wait")
    yield Step(
        f"muster plan -N 2{required_options} --as why -- python {script}",
        "what would be queued, with the reason for every line",
    )
    yield Step(
        f"muster submit -N 2{required_options} -- python {script}", "queue it; then muster why JOB, muster logs -f JOB"
    )
    yield Step("muster jobs", "your jobs")
    if is_known:
        yield Step(f"muster site show {site.name} --why", "what is known of this site, with its sources")
    else:
        yield Step("muster site probe", "a draft of a profile of this cluster, of which nothing is known yet")


def _required(site: Site) -> Iterator[str]:
    """Yield the options that every job of the site needs."""
    profile = site.profile
    examples = {
        "account": f"-A {profile.request.account_example or 'ACCOUNT'}",
        "time": "-t 30",
        "partition": f"-p {next(iter(profile.partitions), 'PARTITION')}",
        "qos": f"-q {next(iter(profile.qos), 'QOS')}",
    }
    return (examples[name] for name in profile.request.required or () if name in examples)


def _on_laptop(facts: Facts, script: str) -> Iterator[Step]:
    yield Step(f"muster run --ntasks-per-node 2 -- python {script}", "two ranks on this machine")
    yield Step("muster lab up -N 4", "a private, real Slurm cluster of four virtual hosts, on this machine")
    yield Step("muster site list", "the clusters whose rules are known")
    example = _example_site(facts)
    required_options = "".join(f" {word}" for word in _required(example))
    yield Step(
        f"muster run --rehearse --site {example.name} -N 2{required_options} -- python {script}",
        "on a cluster like that site, here: would the job be taken, and start right?",
    )


def _example_site(facts: Facts) -> Site:
    """Return a site of which enough is known to rehearse a job."""
    from muster.sites.heads import SearchPath, heads
    from muster.sites.load import choose_site

    return choose_site(next((head.name for head in heads(SearchPath.of(facts)) if head.complete), None), facts)


def _script(folder: Path) -> str:
    """Return a script of this folder; the example's name if there is none."""
    try:
        scripts = sorted(path.name for path in folder.glob("*.py"))
    except OSError:
        scripts = []
    return next(
        (name for name in ("train.py", "main.py") if name in scripts), scripts[0] if len(scripts) == 1 else "train.py"
    )
