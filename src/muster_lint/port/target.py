"""The target of a port: what it wants besides, its plan, and how a draft follows the refusals of that plan. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from muster.errors import MusterError, Refusal, RequestError
from muster.facts import Facts, ImageFacts
from muster.job.options import parse, request_from
from muster.job.request import Request
from muster.model.plan import Plan
from muster.plan.build import make_plan
from muster.sites.schema import NodeKind, Profile, Queue
from muster.sites.site import Site
from muster.units import parse_walltime_s
from muster_lint.port.values import Draft, Fate, PortRow, is_open


class Carried(msgspec.Struct, frozen=True):
    """The job at its target."""

    draft: Draft
    plan: Plan | None
    refusal: MusterError | None
    """Why the target's plan refuses it still; None: it does not."""


class Route(msgspec.Struct, frozen=True):
    """From where to where."""

    source: Site | None
    target: Site
    account: str | None = None

    @property
    def is_home(self) -> bool:
        """Tell whether the script stays where it was written for."""
        return self.source is not None and self.source.name == self.target.name

    @property
    def here(self) -> str:
        """Return the site that the script was written for, in words."""
        return _called(self.source.profile) if self.source else "the site that the script was written for"

    @property
    def there(self) -> str:
        """Return the target in words."""
        return _called(self.target.profile)


def _called(profile: Profile) -> str:
    return profile.title.partition(",")[0].partition(" (")[0]


def add_required(draft: Draft, way: Route) -> None:
    """Give what the target refuses a job without, and ask about it."""
    profile = way.target.profile
    _ask_for_account(draft, way)
    for name in profile.request.required or ():
        if name == "account" and draft.get("account") is None:
            value = way.account or profile.request.account_example or "ACCOUNT"
            verdict = Fate.CHANGED if way.account else Fate.ASKED
            draft.revise("account", verdict, value, f"{way.there} wants an account: put yours here")
        elif name == "time" and draft.get("time") is None:
            draft.revise("time", Fate.ASKED, "01:00:00", f"{way.there} wants a time limit: an hour is a guess")


def _ask_for_account(draft: Draft, way: Route) -> None:
    """Ask about an account of another form than those that the target's profile knows."""
    account, known = draft.get("account"), way.target.profile.request
    if account is None or way.account is not None or not known.account_pattern or not known.account_example:
        return
    if not re.fullmatch(known.account_pattern, account):
        reason = f"Muster's profile of {way.there} does not know accounts like {account}: put yours here"
        draft.revise("account", Fate.ASKED, known.account_example, reason)


def _choose(draft: Draft, way: Route, name: str) -> bool:
    """Take the first queue that fits where the target wants one and no rule of its profile chooses it, and ask."""
    profile = way.target.profile
    queues = profile.qos if name == "qos" else profile.partitions
    purpose = "debug" if "trial" in draft.values else "production"
    fit = [name for name, queue in queues.items() if queue.open and queue.gpus != 0 and _takes(queue, draft)]
    fit.sort(key=lambda name: queues[name].purpose != purpose)
    if not fit or draft.get(name) is not None:
        return False
    draft.revise(name, Fate.ASKED, fit[0], f"{way.there} wants a {name}: which of {', '.join(fit)}?")
    return True


def is_chosen(profile: Profile, name: str) -> bool:
    """Tell whether the rules of a profile choose a queue of this kind."""
    return any(getattr(rule, name) and not (rule.when and rule.when.trial) for rule in profile.queue_rules)


def _takes(queue: Queue, draft: Draft) -> bool:
    """Tell whether a queue takes a job of this size and time."""
    nodes, time = draft.number("nodes") or 1, parse_walltime_s(draft.get("time") or "1")
    longest = parse_walltime_s(queue.time_max) if queue.time_max else None
    short = longest is None or (time is not None and time <= longest)
    return short and (queue.nodes_max is None or nodes <= queue.nodes_max) and (queue.nodes_min or 1) <= nodes


def take_new_names(draft: Draft, way: Route) -> None:
    """Take the new name of a module or a queue that its site has renamed."""
    profile = way.target.profile
    for name in list(draft.values.get("module", ())):
        new = profile.modules.renamed.get(name) or profile.modules.renamed.get(name.partition("/")[0])
        if new is None:
            continue
        fits = re.fullmatch(r"[\w./+-]+", new) is not None and new not in draft.values["module"]
        reason = f"{way.there} has renamed it: {new}"
        draft.revise_one("module", name, Fate.CHANGED if fits else Fate.ASKED, new if fits else None, reason)
    for field in ("partition", "qos"):
        old = draft.get(field)
        if old in profile.queues_renamed:
            draft.revise(field, Fate.CHANGED, profile.queues_renamed[old], f"{way.there} has renamed it")


def request_of(draft: Draft, site: str | None = None) -> Request:
    """Return the request of a draft, as the command line would make it."""
    words = [*draft.words(), *(("--site", site) if site else ()), "--", *draft.command]
    values, origins, command = parse(words)
    return request_from({}, values, origins, command)


def facts_of(working_directory: str, home: str, user: str) -> Facts:
    """Return the facts that a plan for another place may have: nothing of this machine's Python or Slurm."""
    image = ImageFacts(project=working_directory, programs={})
    return Facts(working_directory=working_directory, home=home, user=user, python=None, image=image)


def plan_with_repairs(draft: Draft, way: Route, facts: Facts) -> Carried:
    """Make the plan; what it refuses is repaired as the refusal's values say, as long as that helps."""
    seen_words: set[tuple[str, ...]] = set()
    passed_on = {word: "…" for word in draft.values.get("env", ()) if "=" not in word}
    facts = msgspec.structs.replace(facts, environment={**facts.environment, **passed_on})
    while True:
        option_texts = tuple(draft.words())
        try:
            request = request_of(draft, way.target.name)
            command_words = (*option_texts, "--site", way.target.name, "--", *draft.command)
            plan = make_plan(request, way.target, facts, typed=command_words)
            if _kept_srun(draft, plan, way):
                continue
            _hold_ranks(draft, plan)
            _hold_cpus(draft, plan)
            return Carried(draft, plan, None)
        except MusterError as error:
            refusals = error.refusals if isinstance(error, RequestError) else ()
            seen_words.add(option_texts)
            for refusal in refusals:
                _repair(draft, refusal, way)
            if tuple(draft.words()) in seen_words:
                return Carried(draft, None, error)


def _kept_srun(draft: Draft, plan: Plan, way: Route) -> bool:
    """Keep srun where the script has it and the target prefers another launcher; tell whether the request changed."""
    rows = [row for row in draft.rows if row.field == "started"]
    if not rows or draft.get("launcher") is not None:
        return False
    if plan.launcher == "srun":
        for row in rows:
            _keep_row(draft, row, Fate.KEPT, row.now, "srun starts the ranks")
        return False
    allowed = way.target.profile.launch.allowed
    if allowed and "srun" not in allowed:
        refused = way.target.profile.launch.refused.get("srun", f"{way.there} does not start ranks with srun")
        for row in rows:
            _keep_row(draft, row, Fate.CHANGED, "", f"{plan.launcher} starts the ranks: {refused}")
        return False
    draft.values["launcher"] = ["srun"]
    for row in rows:
        reason = f"srun starts the ranks, where {way.there} prefers {plan.launcher}"
        _keep_row(draft, row, Fate.KEPT, "--launcher srun", reason)
    return True


def _keep_row(draft: Draft, row: PortRow, verdict: Fate, now: str, reason: str) -> None:
    """Give a row another verdict and reason; one that is open stays so, with its own reason before."""
    if is_open(row):
        verdict, reason = row.verdict, f"{row.why}; {reason}"
    draft.replace(row, verdict, now, reason)


def _hold_ranks(draft: Draft, plan: Plan) -> None:
    """Ask about a job that has not as many ranks as the script."""
    ranks = plan.shape.nodes * plan.shape.ntasks_per_node
    if not draft.world or ranks == draft.world:
        return
    reason = f"the script starts {draft.world} ranks, and the job {ranks}"
    rows = [row for row in draft.rows if row.field in {"nodes", "ntasks_per_node", "gpus_per_node", "gres"}]
    for row in rows:
        draft.replace(row, Fate.ASKED, row.now, "; ".join(filter(None, [row.why, reason])))
    if not rows:
        draft.ask(0, "(ranks)", reason)


def _hold_cpus(draft: Draft, plan: Plan) -> None:
    """Ask about a command that reads how many CPUs a task has, where the job gives it another number."""
    new = plan.shape.cpus_per_task or None
    if new != draft.cpus and _CPUS in " ".join(draft.command):
        old, now = (str(number or "not set") for number in (draft.cpus, new))
        draft.ask(0, f"${_CPUS} …", f"{_CPUS} is {old} in the script, and {now} in the job", "in the command")


_CPUS = "SLURM_CPUS_PER_TASK"
_REPAIRS: Mapping[str, str] = {
    "time": "time",
    "cpus-per-task": "cpus_per_task",
    "gpus-per-node": "gpus_per_node",
    "ntasks-per-node": "ntasks_per_node",
    "mem": "mem",
    "launcher": "launcher",
    "account": "account",
}
"""The fields that a repair changes, by the long names of their options."""


def _repair(draft: Draft, refusal: Refusal, way: Route) -> None:
    """Change the draft so that this rule is kept, by the first repair that changes anything."""
    any(repair(draft, refusal, way) for repair in (_required_by_plan, _accepted, _no_trial, _kept_image, _fewer_nodes))


def _required_by_plan(draft: Draft, refusal: Refusal, way: Route) -> bool:
    """Ask about what the plan wants besides."""
    if refusal.rule in {"required-qos", "required-partition"}:
        return _choose(draft, way, refusal.rule.removeprefix("required-"))
    guesses = {
        "required-mem": ("mem", "16G", f"{way.there} wants the memory of a node: 16G is a guess"),
        "no-time-limit": (
            "time",
            "01:00:00",
            "the ranks save before the time limit, which is needed: an hour is a guess",
        ),
    }
    field, value, reason = guesses.get(refusal.rule, ("", "", ""))
    if not field or draft.get(field) is not None:
        return False
    draft.revise(field, Fate.ASKED, value, reason)
    return True


def _accepted(draft: Draft, refusal: Refusal, way: Route) -> bool:
    """Take the values that the rule would accept. An account of the target is known to its owner alone."""
    is_changed = False
    for name, value in refusal.accepted.items():
        field = _REPAIRS.get(name)
        is_refused = field == "launcher" and value not in (way.target.profile.launch.allowed or (value,))
        if field is None or draft.get(field) == value or is_refused:
            continue
        verdict = Fate.ASKED if field == "account" else Fate.CHANGED
        draft.revise(field, verdict, value, f"{way.there}: {refusal.message}")
        is_changed = True
    return is_changed


def _no_trial(draft: Draft, refusal: Refusal, way: Route) -> bool:
    """Ask for no trial where the queue for trials refuses the job."""
    profile = way.target.profile
    trial_queues = {
        name
        for rule in profile.queue_rules
        if rule.when is not None and rule.when.trial
        for name in (rule.partition, rule.qos)
    }
    if draft.get("trial") is None or refusal.queue not in trial_queues:
        return False
    draft.revise("trial", Fate.CHANGED, None, f"{way.there}: {refusal.message}")
    return True


def _kept_image(draft: Draft, refusal: Refusal, way: Route) -> bool:
    """Take a file in the place of an image that the nodes cannot pull."""
    image = draft.get("image")
    if image is None or refusal.rule != "image-pull":
        return False
    name = f"{image.rpartition('/')[2].partition(':')[0]}.sif"
    reason = f"the nodes of {way.there} have no way out: muster build image --from {image} -o {name} where there is one"
    draft.revise("image", Fate.ASKED, name, reason)
    return True


def _fewer_nodes(draft: Draft, refusal: Refusal, way: Route) -> bool:
    """Follow a queue that takes fewer nodes."""
    if refusal.rule != "nodes-max":
        return False
    reason = f"{way.there}: {refusal.queue} takes jobs of at most {refusal.limit} nodes"
    draft.revise("nodes", Fate.ASKED, str(refusal.limit), reason)
    return True


def node_of(profile: Profile, draft: Draft | None = None) -> NodeKind | None:
    """Return the kind of node that the job gets: the first with GPUs, or the first of all for a job without."""
    wants = draft is None or (draft.number("gpus_per_node") or 0) > 0
    return next((node for node in profile.nodes.values() if wants == bool(node.gpus)), None) or next(
        iter(profile.nodes.values()), None
    )
