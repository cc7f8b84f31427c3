"""muster run --rehearse: the real job on a lab like its site, and in words what that could show."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from muster.act.prepare import plan_for
from muster.cli.launching import facts_and_request, need_command, warn
from muster.cli.output import say
from muster.errors import RequestError
from muster.facts import Facts
from muster.job.request import Request
from muster.model.plan import Plan
from muster.plan.sweep import command_of_row

if TYPE_CHECKING:
    from muster.cli.command_line import TypedLaunch
    from muster.probe.judge import Point
    from muster.sites.schema import Profile
    from muster_lab.rehearse.cluster import Performance, RehearsalLab, Written
    from muster_lab.spec import LabSpec

_FEW = 4
_MOST_HOSTS = 16
_MOST_TASKS = 128


def rehearse(launch: TypedLaunch, *, is_asked: bool, ranks: int | None, quiet: bool) -> int:
    """Rehearse; 0 where everything that a lab can show was right, else the script's own status, or 1."""
    from muster.act.kept_cluster import know_cluster
    from muster.act.rank_library import make_rank_library
    from muster.sites.load import choose_site, overrides_from
    from muster_lab.rehearse.adapt import few_ranks, for_lab, not_shown, watched
    from muster_lab.rehearse.cluster import Performance, Written, rehearsal_lab

    if not is_asked:
        raise RequestError("--ranks belongs to --rehearse", hint="--ntasks-per-node says how many ranks a node has")
    facts, request = facts_and_request(launch, quiet=quiet)
    need_command(request)
    if request.here:
        raise RequestError("--rehearse needs a cluster, but --here has none", hint="omit one of them")
    queued = plan_for(request, facts, launch.typed)
    # What Slurm says here was just asked for the plan: the lab has the same partitions.
    profile = choose_site(request.site, facts, overrides_from(request.site_set), know_cluster(facts).facts).profile
    if queued.sweep is not None:
        raise RequestError(
            f"{request.origin('sweep')}: a rehearsal is one launch, but the table has {len(queued.sweep.rows)} rows",
            hint=f"rehearse the first row: -- {shlex.join(command_of_row(queued, 1))}",
        )
    warn(queued.notes, quiet=quiet)
    _check_size(queued)
    _check_place(queued)
    bare, lost_parts = _without_image(queued, request, facts, launch.typed)
    rehearsed = for_lab(bare, profile, _has_program, lambda path: _exists(Path(path)))
    make_rank_library(rehearsed.plan.rank_library)
    hidden = [*not_shown(queued, profile), *lost_parts, *rehearsed.taken_out]
    hosts = f"{queued.shape.nodes} host{'s' * (queued.shape.nodes != 1)}"
    say(f"a rehearsal for {profile.name}: a lab with its queues and rules, {hosts}", quiet=quiet)
    with rehearsal_lab(_spec(profile, queued), os.environ, lambda text: say(text, quiet=quiet)) as place:
        _asked_of_sbatch(place, queued)
        points = _probed(place, rehearsed.plan)
        performance, written_files = Performance(0, "", ""), list[Written]()
        if all(point.ok for point in points):
            few_plan = few_ranks(rehearsed.plan, ranks or _FEW)
            small_plan = watched(few_plan, facts, asked=request.hang is not None)
            say(f"the command itself, with {small_plan.shape.ntasks} of {queued.shape.ntasks} ranks:", quiet=quiet)
            performance = place.perform(small_plan, rehearsed.plan)
            written_files = place.written()
            _add_performance(points, hidden, performance, small_plan, _source(rehearsed.plan))
            if not performance.status and small_plan.shape.ntasks > 1:
                hidden += _strangers(rehearsed.plan, facts)
        else:
            hidden.append("the command itself: it was not started, because the launch was not right")
    _report(profile, points, hidden)
    _tell_written(written_files, rehearsed.plan.working_directory)
    if all(point.ok for point in points):
        return 0
    return performance.status or 1


def _has_program(name: str) -> bool:
    return shutil.which(name) is not None


def _check_size(plan: Plan) -> None:
    if plan.shape.nodes > _MOST_HOSTS or plan.shape.ntasks > _MOST_TASKS:
        raise RequestError(
            f"{plan.shape.nodes} nodes and {plan.shape.ntasks} ranks are more than a lab on this machine can rehearse",
            hint=f"-N 2 shows the same lines; at most {_MOST_HOSTS} nodes and {_MOST_TASKS} ranks",
        )


def _check_place(plan: Plan) -> None:
    from muster_lab.paths import OWN_PLACES

    if Path(plan.working_directory) in OWN_PLACES:
        raise RequestError(
            f"the working directory {plan.working_directory} is this host's own: the lab's hosts do not see it",
            hint="work in a folder below it, or give --chdir",
        )
    if _is_closed(Path(plan.working_directory)):
        raise RequestError(
            f"the working directory {plan.working_directory} is closed to you",
            hint="work in a folder of yours, or give --chdir; its owner can open it with chmod o+rx",
        )


def _without_image(plan: Plan, request: Request, facts: Facts, words: Sequence[str]) -> tuple[Plan, list[str]]:
    """Return the plan, or, where its image cannot run here, the same launch with this machine's own software."""
    from msgspec.structs import replace

    image = plan.image
    if image.image is None:
        return plan, []
    runs = bool(image.program) and _has_program(image.program)
    if runs and _exists(Path(image.image)):
        return plan, []
    reason = "the image is not" if runs else f"no {image.engine}"
    bare = replace(request, image=None, engine=None, bind=(), stack=None)
    bare_plan = plan_for(bare, facts, words)
    lost_parts = f"the container ({image.engine}, {image.image}): {reason} here, so this machine's own python ran"
    # What keeps the host's PYTHONPATH out of an image would here keep our library from the ranks.
    variables = tuple(
        variable for variable in plan.variables if (variable.name, variable.value) != ("PYTHONPATH", None)
    )
    return replace(bare_plan, variables=variables, directives=plan.directives), [lost_parts]


def _spec(profile: Profile, plan: Plan) -> LabSpec:
    from dataclasses import replace

    from muster.policy.queues import kind_of_constraint, kinds_in
    from muster.slurm.flags import gpu_type_in_gres
    from muster_lab.like import lab_like

    header = {directive.name: directive.value for directive in plan.directives}
    default = next((queue for queue in profile.partitions.values() if queue.default), None)
    queue = profile.partitions.get(header.get("partition") or "", default)
    gpu_type = gpu_type_in_gres(header.get("gres")) or (header.get("gpus-per-node") or "").rpartition(":")[0]
    kinds = kinds_in(queue) if queue else ()
    of_type = [kind for kind in kinds if profile.nodes[kind].gpu_type == gpu_type]
    lab = lab_like(
        profile,
        name=f"rehearsal-{os.getpid()}",
        nodes=int(str(header["nodes"])),  # spares too
        kind=kind_of_constraint(profile, header.get("constraint")) or next(iter((*of_type, *kinds)), None),
        other_nodes=1,
        account=header.get("account"),
    )
    if not of_type:  # a type of the user's, or of the site, that no kind of node has as its own
        groups = (replace(group, gpu_type=gpu_type or group.gpu_type) for group in lab.groups)
        lab = replace(lab, groups=tuple(groups))
    return replace(lab, copied_for=plan.working_directory)


def _asked_of_sbatch(place: RehearsalLab, plan: Plan) -> None:
    from muster.act.refusal import accepted
    from muster.render.script import job_script

    accepted(place.accepts(job_script(plan)))


def _probed(place: RehearsalLab, plan: Plan) -> list[Point]:
    """Return the launch with something else in the place of the command: once to tell of it, once to fail."""
    from muster.probe.judge import Point, judge, judge_exit
    from muster.probe.text import failing_probe, parse, probe, with_command
    from muster_lab.rehearse.own_words import judge_launcher, missing_module

    header = {directive.name: directive.value for directive in plan.directives}
    queue = ", ".join(f"{name} {header[name]}" for name in ("partition", "qos", "account") if header.get(name))
    points = [Point(ok=True, text=f"sbatch takes the script as the site's would{f': {queue}' if queue else ''}")]
    names = [variable.name for variable in plan.variables if not variable.name.endswith("*")]
    answers = place.probe(with_command(plan, probe(_words(plan), names=names, files=_files(plan))))
    if answers.status:
        say(answers.stderr.strip() or f"the launch ended with status {answers.status}")
    seen = parse(answers.stdout)
    module = None if seen else missing_module(answers.stderr)
    if module is not None:
        return [*points, judge_launcher(plan.launcher, module)]
    if answers.status:
        points.append(Point(ok=False, text=f"the launch itself ended with status {answers.status}"))
    points += judge(plan, seen)
    if all(point.ok for point in points):
        failed = place.probe(with_command(plan, failing_probe(plan.shape.ntasks - 1)))
        points.append(judge_exit(failed.status))
    return points


def _words(plan: Plan) -> tuple[str, ...]:
    return tuple(str(word) for word in plan.command)


def _files(plan: Plan) -> list[str]:
    """Return what the command names that is there on this host."""
    paths = [Path(plan.working_directory) / word for word in _words(plan)[1:] if word and not word.startswith("-")]
    return [str(path) for path in paths if _exists(path) or _is_closed(path)]


def _is_closed(path: Path) -> bool:
    """Return whether this user may not look there: a folder above it is somebody else's."""
    try:
        os.stat(f"{path}/." if path.is_dir() else path)  # noqa: PTH116
    except PermissionError:
        return True
    except OSError:
        return False
    return False


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # a word too long for a file's name
        return False


def _source(plan: Plan) -> str:
    """Return the text of the script that the command names; empty where there is none to read."""
    script = next((word for word in _words(plan) if word.endswith(".py")), None)
    try:
        return (Path(plan.working_directory) / script).read_text(errors="replace") if script else ""
    except OSError:
        return ""


def _add_performance(
    points: list[Point], hidden: list[str], performance: Performance, small_plan: Plan, source: str
) -> None:
    """Add what the command's own run showed; a failure by a missing device shows nothing."""
    from muster.probe.judge import Point
    from muster_lab.rehearse.own_words import Blame, judge_failure, judge_hang, read_own_words
    from muster_lab.rehearse.source import exit_sentences, insists

    name, status = small_plan.job_name, performance.status
    lines = "; ".join(f"line {insistence.line}: {insistence.what}" for insistence in insists(source)[:4])
    if performance.hang is not None:
        points.append(judge_hang(name, performance.hang))
        return
    if not status:
        points.append(Point(ok=True, text=f"{name} ran to its end with {small_plan.shape.ntasks} ranks"))
        if lines:
            hidden.append(f"what {name} does with a GPU ({lines})")
        return
    exits = exit_sentences(source)
    words = read_own_words(performance.output, performance.errors, small_plan.launcher, exits)
    if words.blame is Blame.DEVICE:
        error = f"{words.error}; {lines}" if lines else words.error
        hidden.append(f"{name} beyond its start (it ended with status {status}): it insists on a GPU ({error})")
    else:
        points.append(judge_failure(name, status, words))


def _report(profile: Profile, points: Sequence[Point], hidden: Sequence[str]) -> None:
    say(f"shown on a lab like {profile.name}:")
    for point in points:
        say(f"  {'ok   ' if point.ok else 'WRONG'} {point.text}{f' ({point.hint})' if point.hint else ''}")
        for line in point.quoted:
            say(f"        | {line}")
    say("not shown:")
    for text in hidden:
        say(f"  - {text}")


def _strangers(plan: Plan, facts: Facts) -> Iterator[str]:
    """Yield that the ranks did not work together, where the script shows that; many right ones need not."""
    from muster.look.script import look_at_script

    script = look_at_script(_words(plan), plan.working_directory, facts.environment)
    if script is not None and script.never_joins:
        yield f"ranks that work together: nothing in {script.path} could know of another rank"


_MOST_LINES = 20


def _tell_written(written_files: Sequence[Written], directory: str) -> None:
    """Print what the script would have written, the largest files first where there are many."""
    if not written_files:
        return
    say("would have written, but for the copy-on-write view:")
    largest = sorted(written_files, key=lambda written_file: -(written_file.size or 0))[:_MOST_LINES]
    for shown_file in sorted(largest, key=lambda written_file: written_file.path):
        path = Path(shown_file.path)
        name = path.relative_to(directory) if path.is_relative_to(directory) else path
        say(f"  {name}  {'removed' if shown_file.size is None else f'{shown_file.size:,} bytes'}")
    if len(written_files) > len(largest):
        rest = sum(written_file.size or 0 for written_file in written_files) - sum(
            written_file.size or 0 for written_file in largest
        )
        say(f"  and {len(written_files) - len(largest)} smaller files, {rest:,} bytes")
