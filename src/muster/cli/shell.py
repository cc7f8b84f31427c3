"""muster shell: an interactive shell on a compute node, in one line."""

from __future__ import annotations

from muster.cli.command_line import QUIET, CommandLine, Words, fields_but
from muster.cli.launching import facts_and_request, warn
from muster.cli.output import say
from muster.errors import MachineLacks


def main(words: Words) -> int:
    """Become the shell."""
    from muster.act.kept_cluster import know_cluster
    from muster.act.launch import become_shell
    from muster.look.image_facts import look_at_image
    from muster.look.place import RunPlace, place_of
    from muster.look.size import refuse_parts
    from muster.plan.build import make_plan
    from muster.plan.interactive import for_a_shell
    from muster.sites.load import choose_site, overrides_from
    from muster.slurm.granted import read_granted
    from muster.start import place_parts

    facts, request = facts_and_request(words.launch, quiet=words.quiet)
    place, reason = place_of(request, facts)
    if place is RunPlace.WITHIN:
        refuse_parts(read_granted(facts.environment))
    if place is RunPlace.HERE:
        raise MachineLacks(
            "slurm",
            f"{reason}, and you already have a shell on this machine",
            hint="muster lab shell",
        )
    cluster = know_cluster(facts, fresh=request.fresh).facts if place is RunPlace.ALLOCATE else None
    site = choose_site(request.site, facts, overrides_from(request.site_set), cluster)
    program = "sh" if request.image else facts.environment.get("SHELL", "/bin/sh")  # the user's may not be in an image
    shell_request = for_a_shell(request, site, program)
    plan = make_plan(
        shell_request,
        site,
        look_at_image(shell_request, site, facts),
        typed=words.launch.typed,
        within=place is RunPlace.WITHIN,
        stream=True,
    )
    warn(plan.notes, quiet=words.quiet)
    if place is RunPlace.ALLOCATE and plan.shape.gpus_per_node and not plan.shape.cpus_per_task:
        text = "how many cores go with a GPU is not known here: Slurm gives its default, often one; -c N asks for more"
        say(text, quiet=words.quiet)
    place_parts(plan, say)
    return become_shell(plan, facts.environment, within=place is RunPlace.WITHIN, say=say)


_NOT_FOR_A_SHELL = (
    *("output", "error", "per_rank_files", "no_label", "launcher", "here", "snapshot", "check"),
    *("stage_env", "stage", "stage_out"),
)
COMMAND = CommandLine(
    name="shell",
    start=main,
    summary="""\
Open a shell on the first node: in the allocation where this is typed, else on the site's interactive or debug queue.
-g 2 asks for a part of a node, with the cores of its GPUs.""",
    operands="[--] [COMMAND…]",
    most=None,
    runs=True,
    fields=fields_but(*_NOT_FOR_A_SHELL),
    options=(QUIET,),
    examples=("muster shell -g 1 -t 30",),
)
