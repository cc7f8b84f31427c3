"""muster site probe, check and report: what this cluster answers, held against its profile."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from muster import __version__
from muster.cli.command_line import JSON, CommandLine, Words, read_launch
from muster.cli.output import print_json, say
from muster.errors import RequestError, SiteError
from muster.job.option import option, parse_flag

if TYPE_CHECKING:
    from muster.sites.site import Site
    from muster_check.survey.draft import Survey
    from muster_check.survey.verify import WrongFact


def _survey(words: Words) -> Survey:
    """Ask this cluster; an error where nothing could be asked."""
    from muster.look.probe import look
    from muster_check.survey.ask import survey
    from muster_check.survey.draft import OF_THE_SHELL, not_answered

    answers = survey(
        look(), job=words.srun if words.job or words.srun or words.reach else None, reach=_host(words.reach)
    )
    if answers.cluster is None and not set(answers.answers) - OF_THE_SHELL:
        reason = next(iter(not_answered(answers).values()), "")
        hint = "type it on a login node of the cluster; for mistakes in a file of yours: muster site show FILE --why"
        raise SiteError(f"Slurm answers nothing here: {reason}", hint)
    for question, sentence in not_answered(answers).items():
        if question not in OF_THE_SHELL:
            say(f"not answered: {sentence}")
    if not answers.node and "node" not in answers.refused:
        say("the login node alone was asked; --job asks a compute node for a minute")
    return answers


def _status(survey: Survey, findings: Sequence[WrongFact] = (), *, unproved: str = "") -> int:
    """Return 1 where a fact is wrong, 3 where nothing is known of the other facts: too little was answered."""
    from muster.cli.app import print_error
    from muster_check.survey.draft import WITHOUT_WHICH, not_answered

    missing = [sentence for key, sentence in not_answered(survey).items() if key in WITHOUT_WHICH]
    hint = "try again in a minute"
    if unproved:
        missing.append(unproved)
        hint = f"{hint}; --srun=FLAG gives the job of --job what this site requires, as --srun=-Aphys"
    if missing and not findings:
        print_error(f"the cluster did not answer all that was asked: {'; '.join(missing)}", hint)
    return 1 if findings else 3 if missing else 0


def _host(text: str | None) -> str | None:
    """Return the host of --reach, where it is a host's name."""
    from muster_check.survey.place import HOST

    if text is not None and not HOST.fullmatch(text):
        raise RequestError(f"--reach: {text!r} is not the name of a host", hint="--reach www.example.org")
    return text


def _probe(words: Words) -> int:
    from muster_check.survey.draft import draft

    survey = _survey(words)
    print(draft(survey, words.first or "mine"), end="")
    say("keep it as ~/.config/muster/sites/NAME.toml, or give it to --site")
    return _status(survey, unproved="a compute node" if "node" in survey.refused else "")


def _check(words: Words) -> int:
    from muster.look.probe import look
    from muster.sites.load import choose_site
    from muster.sites.tell import third_party_keys
    from muster_check.survey.verify import SLURM_SAYS, unlisted, verify

    site = choose_site(words.first, look())
    survey, unproved = _survey(words), ""
    findings = verify(site, survey)
    others = unlisted(site.profile, survey.cluster) if survey.cluster else {}
    if words.job or words.srun:
        unproved, wrong_facts = _prove(site, words.first or site.name, words.srun)
        findings += wrong_facts
    if words.json:
        rows = [
            {
                "key": finding.key,
                "says": finding.says,
                "by": finding.by,
                "seen": finding.seen,
                "file": finding.origin.file,
                "line": finding.origin.line,
                "hint": finding.hint,
            }
            for finding in findings
        ]
        unanswered = sorted(survey.refused)
        third_party = third_party_keys(site)
        print_json(
            {
                "site": site.name,
                "findings": rows,
                "not_in_the_profile": others,
                "third_party": third_party,
                "not_answered": unanswered,
            }
        )
        return _status(survey, findings, unproved=unproved)
    for finding in findings:
        print(finding.words())
        if finding.hint:
            print(f"    for one command: {finding.hint}")
    wrong = "1 fact does" if len(findings) == 1 else f"{len(findings)} facts do"
    say(f"{wrong} not hold at {site.name}" if findings else f"what could be asked of {site.name} holds")
    if any(finding.by == SLURM_SAYS for finding in findings):
        say("plans here follow Slurm already; muster site report writes this into a file for an issue")
    for kind, names in others.items():
        say(f"the {kind} that the profile does not have: {', '.join(names)}")
    reported_keys = third_party_keys(site)
    if reported_keys:
        words_of_others = "fact is" if len(reported_keys) == 1 else "facts are"
        named = _by_table(reported_keys)
        say(f"{len(reported_keys)} {words_of_others} a third party's word, to be believed less: {named}")
    help_address = site.profile.help.support or site.profile.help.guide
    if findings and help_address:
        say(f"if the site has changed, tell us; if it is broken: {help_address}")
    return _status(survey, findings, unproved=unproved)


def _by_table(keys: Sequence[str]) -> str:
    """Return keys as few words: a table that has many of them with their number."""
    counts = Counter(key.partition(".")[0] for key in keys)
    shown = dict.fromkeys(
        f"{table} ({counts[table]})" if counts[table] > 2 else key for key in keys for table in [key.partition(".")[0]]
    )
    return ", ".join(shown)


def _report(words: Words) -> int:
    from muster.look.probe import look
    from muster.sites.load import choose_site
    from muster_check.survey.ask import private_of
    from muster_check.survey.report import report
    from muster_check.survey.verify import verify

    facts = look()
    site = choose_site(words.first, facts)
    survey = _survey(words)
    findings = verify(site, survey)
    unproved = ""
    if words.job or words.srun:
        unproved, wrong_facts = _prove(site, words.first or site.name, words.srun)
        findings += wrong_facts
    print(report(site, survey, findings, __version__, private_of(facts, survey)), end="")
    say(f"read it, then attach it to an issue: it says what {site.name} is on {survey.day}")
    return _status(survey, unproved=unproved)


def _prove(site: Site, name: str, flags: Sequence[str]) -> tuple[str, list[WrongFact]]:
    """Return who did not answer, and what two nodes and Muster's own launch over them show of the profile."""
    from muster_check.survey.ask import ask_two_nodes
    from muster_check.survey.nodes import findings_of_nodes

    answers, trouble = ask_two_nodes(site.profile, flags)
    if not answers:
        say(f"two nodes could not be asked: {trouble}")
        return "two compute nodes", []
    return "", [*findings_of_nodes(site, answers), *_launched(site, name, flags)]


def _launched(site: Site, name: str, flags: Sequence[str]) -> list[WrongFact]:
    """Return a job of two nodes as Muster plans it, with a probe in the place of the command."""
    from muster.act.keep import script_to_pass
    from muster.act.prepare import plan_for
    from muster.cli.launching import facts_and_request
    from muster.plan.secret import variables_to_hand_over
    from muster.probe.judge import Point, judge, stopped_at
    from muster.probe.text import parse, probe, with_command
    from muster.render.script import job_script
    from muster.runner import run
    from muster.slurm.allocation import hold_nodes
    from muster.slurm.variables import scheduler_environment
    from muster_check.survey.verify import WrongFact

    words = ["--site", name, "-N", "2", "-t", "2", *(f"--sbatch={flag}" for flag in flags), "--", "true"]
    facts, request = facts_and_request(read_launch(words))
    plan = plan_for(request, facts, words, stream=True)
    names = [variable.name for variable in plan.variables if not variable.name.endswith("*")]
    probe_plan = with_command(plan, probe(("true",), names=names, files=()))
    with script_to_pass(job_script(probe_plan)) as (memory, script):
        result = run(
            hold_nodes(probe_plan.directives, *script, quiet=True),
            env={**scheduler_environment(facts.environment), **variables_to_hand_over(probe_plan)},
            cwd=plan.working_directory,
            timeout_s=540,
            pass_fds=[memory],
        )
    rank_answers = parse(result.stdout)
    stopped = None if rank_answers else stopped_at(plan, result.stderr)
    last = next((line for line in reversed(result.stderr.splitlines()) if line.strip()), f"status {result.status}")
    points = [stopped or Point(ok=False, text=last, key="request")] if not rank_answers else judge(plan, rank_answers)
    return [
        WrongFact(point.key, "a launch over two nodes is right", "the launch shows", point.text, site.origin(point.key))
        for point in points
        if not point.ok
    ]


_SRUN = option(
    "--srun FLAG",
    "add a flag of srun for the job of --job: --srun=-Aphys",
    parse_flag,
    repeated=True,
    whole_flags=True,
)
_REACH = option(
    "--reach HOST",
    "let the compute node of --job try one connection to port 443 of this host, to see whether there is a way out",
)
COMMANDS = (
    CommandLine(
        name="site probe",
        start=_probe,
        summary="""\
Write a draft of this cluster's profile to stdout.

The draft holds what Slurm cannot say: modules, fabric, containers, file systems.
Slurm is asked only what every user may ask.""",
        operands="[NAME]",
        most=1,
        options=(
            option("--job", "ask a compute node too, in a job of a minute"),
            _REACH,
            _SRUN,
        ),
    ),
    CommandLine(
        name="site check",
        start=_check,
        summary="""\
Check whether the profile is right here. Print one line for each fact that is wrong, with both values and both origins.

Status 0: all facts are right; 1: a fact is wrong.""",
        operands="[SITE]",
        most=1,
        options=(
            option("--job", "ask two nodes too, and launch over both as muster run does"),
            _REACH,
            JSON,
            _SRUN,
        ),
    ),
    CommandLine(
        name="site report",
        start=_report,
        summary="""\
Write what `site check` sees into one file that can be attached to an issue.

The file holds none of your names, accounts and paths. A report with --job is what confirms a profile.""",
        operands="[SITE]",
        most=1,
        options=(
            option("--job", "ask two nodes too, and launch over both as muster run does"),
            _REACH,
            _SRUN,
        ),
    ),
)
