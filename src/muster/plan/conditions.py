"""What holds for the planned size only: tested in the job, where `sbatch -N 8 job.sh` may have changed it. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from muster.job.request import Request
from muster.model.plan import Condition, ConditionKind, Shape
from muster.older import zip_equal
from muster.plan.site_values import reason_for
from muster.plan.terms import Terms
from muster.sites.site import Site
from muster.sites.when import Situation, applies

_OTHER_SIZE = "write a new script for this size with muster plan"


def make_conditions(site: Site, request: Request, shape: Shape, terms: Terms, job: Situation) -> tuple[Condition, ...]:
    """Return the sizes for which a line of this script is right, each with the line it is about."""
    return (*_of_queue(site, request, terms), *_of_masks(site, shape, terms), *_of_variables(site, shape, job))


def _of_queue(site: Site, request: Request, terms: Terms) -> Iterator[Condition]:
    directives = {directive.name: directive.value for directive in terms.directives}
    names = (request.partition or directives.get("partition"), request.qos or directives.get("qos"))
    tables = (("partition", "partitions", site.profile.partitions), ("QOS", "qos", site.profile.qos))
    for name, (kind, table, queues) in zip_equal(names, tables):
        for key, test, words in (("nodes_max", "-le", "at most"), ("nodes_min", "-ge", "at least")):
            limit = getattr(queues.get(name or ""), key, None)
            if limit is not None:
                yield Condition(
                    ConditionKind.SIZE,
                    f'[ "$muster_nodes" {test} {limit} ]',
                    f"the {kind} {name} takes jobs of {words} {limit} nodes",
                    _OTHER_SIZE,
                    reason_for(site, f"{table}.{name}.{key}", f"a limit of the {kind}"),
                )


def _of_masks(site: Site, shape: Shape, terms: Terms) -> Iterator[Condition]:
    if any(str(flag.word).startswith("--cpu-bind=") for flag in terms.step_flags):
        yield Condition(
            ConditionKind.SIZE,
            f'[ "$muster_ntasks_per_node" -eq {shape.ntasks_per_node} ]',
            f"the CPU masks are for {shape.ntasks_per_node} ranks on each node",
            _OTHER_SIZE,
            reason_for(site, "binding.kind", "a mask names the cores of one rank"),
        )


def _of_variables(site: Site, shape: Shape, job: Situation) -> Iterator[Condition]:
    """Yield a condition for each variable that is right for one node only, or for several only."""
    for number, variable in enumerate(site.profile.environment):
        condition = variable.when
        if condition is None or not applies(
            replace(variable, when=replace(condition, nodes_min=None, nodes_max=None)), job
        ):
            continue  # not a matter of size: this job would never have it
        reason = reason_for(site, f"environment.{number}", variable.reason, shown_key=f"environment.{variable.name}")
        # The sizes from which on it is another matter.
        edges = (condition.nodes_min, condition.nodes_max + 1 if condition.nodes_max else None)
        for edge in (row for row in edges if row is not None):
            larger = shape.nodes >= edge
            side = f"{edge} nodes or more" if larger else f"fewer than {edge} nodes"
            yield Condition(
                ConditionKind.SIZE,
                f'[ "$muster_nodes" {"-ge" if larger else "-lt"} {edge} ]',
                f"{variable.name} was decided for {side}",
                _OTHER_SIZE,
                reason,
                variable.name,
                side,
            )
