"""Write what is made from the site profiles; `--check` says whether it is current.

docs/sites/*.md                     a page for each site
docs/by-hand/*.md                   what a document says to do by hand, and what does it now
docs/reference/profile.schema.json  JSON Schema of a profile, for editors
src/muster/sites/data/index.json    the top of each profile, by which a site is recognised
src/muster/sites/data/read/*.json   the tables of each profile, as a launch reads them
"""

from __future__ import annotations

import ast
import inspect
import json
import shlex
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from muster.plan.site_terms import say_ran, say_trust
from muster.policy.masks import gpu_cores, spell_cores
from muster.sites import schema, schema_launch, schema_queues, schema_words
from muster.sites.heads import BUNDLED, INDEX, SearchPath, heads_in
from muster.sites.load import load
from muster.sites.schema import NodeKind, Queue
from muster.sites.site import Site
from muster.sites.tell import missing_keys
from muster.sites.text import file_of_tables, read_text, spell_tables
from muster.sites.when import say_when

ROOT = Path(__file__).resolve().parent.parent
PUBLISHED = {path.stem for path in (ROOT / "tests/sites/published").glob("*.toml")} - {"all", "said"}
sys.path.insert(0, str(ROOT / "tests"))
from sites.differences import Row, compare, published  # noqa: E402  # what is published is a fact of the tests
from sites.documents import Document, documents  # noqa: E402
from sites.published_jobs import SCRIPTS, Script  # noqa: E402

DOCS = ROOT / "docs"
TRUST = {"D": "the site", "V": "vendor or site staff", "T": "third party"}
EXAMPLE_TIME = "00:30:00"
EXAMPLE_CPUS = "8"
"""Where the profile does not know how many cores a node has."""


def made() -> dict[Path, str]:
    """Every file and its text."""
    sites = [load(path.stem, SearchPath(site_wide=None)) for path in sorted(Path(BUNDLED).glob("*.toml"))]
    papers = documents()
    files = {DOCS / "sites" / f"{site.name}.md": _site_page(site, papers) for site in sites}
    files[DOCS / "sites" / "README.md"] = _index(sites)
    files |= {DOCS / "by-hand" / f"{paper.name}.md": _paper_page(paper) for paper in papers}
    files[DOCS / "reference" / "profile.schema.json"] = json.dumps(json_schema(), indent=2) + "\n"
    found = [msgspec.structs.replace(head, path=None) for head in heads_in(BUNDLED, "bundled")]
    files[Path(INDEX)] = msgspec.json.format(msgspec.json.encode(found), indent=1).decode() + "\n"
    files |= {
        Path(file_of_tables(path)): spell_tables(read_text(path)).decode() for path in Path(BUNDLED).glob("*.toml")
    }
    return files


# ---------------------------------------------------------------- words


def _cell(value: object) -> str:
    return str(value).replace("|", "\\|").replace("\n", " ")


def _list(words: Iterable[str]) -> str:
    return ", ".join(f"`{word}`" for word in words)


def _code(value: object) -> str:
    return f"`{value}`" if value not in {None, ""} else ""


def _table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Write a table; where all rows are from one source, one line under the table names it."""
    rows, below = list(rows), []
    if columns[-1] == "from" and len({row[-1] for row in rows}) == 1:
        below = [f"\nFrom: {rows[0][-1]}"] if rows[0][-1] else []
        columns, rows = columns[:-1], [row[:-1] for row in rows]
    body = [f"| {' | '.join(_cell(cell) for cell in row)} |" for row in rows]
    if not body:
        return ""
    return "\n".join([f"| {' | '.join(columns)} |", f"|{'---|' * len(columns)}", *body, *below]) + "\n"


def _section(title: str, *parts: str) -> str:
    kept = [part.rstrip() for part in parts if part]
    return f"## {title}\n\n" + "\n\n".join(kept) + "\n" if kept else ""


def _source(site: Site, name: str | None) -> str:
    if name is None:
        return ""
    found = site.profile.sources[name]
    return f"{found.title} ({TRUST[found.trust]}, {found.checked})"


def _from(site: Site, key: str) -> str:
    """The document and date of a key, in brackets."""
    origin = site.origin(key)
    if origin.source is None:
        return ""
    return f"*{origin.source.title} ({TRUST[origin.source.trust]}, checked {origin.checked})*"


# ---------------------------------------------------------------- a site


def _site_page(site: Site, papers: Sequence[Document]) -> str:
    profile = site.profile
    parts = [
        f"# {profile.title}\n",
        f"{profile.summary}. {_state(site)}".rstrip() + "\n",
        f"`muster site show {site.name} --why` prints the same with the reason of every line.\n",
        _first_job(site),
        _queues(site),
        _asking(site),
        _ranks(site),
        _variables(site),
        _software(site),
        _files(site),
        _bandwidth(site),
        _quirks(site),
        _outdated(site, papers),
        _said_there(site),
        _checked(site),
        _unknown(site),
        _people(site),
        _section(
            "Sources",
            _table(
                ("document", "where", "dated", "checked", "trust"),
                (
                    (each.title, each.at, each.dated or "", each.checked, TRUST[each.trust])
                    for each in profile.sources.values()
                ),
            ),
        ),
        f"---\n\nMade by `scripts/make_site_pages.py` from `src/muster/sites/data/{site.name}.toml`.\n",
    ]
    return "\n".join(part for part in parts if part)


def _state(site: Site) -> str:
    words = say_trust(site)
    rests = f"{words[0].upper()}{words[1:].partition(' (')[0]}. " if words else ""
    ran = say_ran(site)
    return rests + (f"{ran[0].upper()}{ran[1:]}. " if ran else "") + _how_full(site)


def _how_full(site: Site) -> str:
    if site.profile.complete:
        return "Every key of the profile has a value, or a dated note that nothing is published."
    missing = len(list(missing_keys(site)))
    if not missing:
        return ""
    return (
        f"{missing} keys of the profile have no value yet." if missing > 1 else "1 key of the profile has no value yet."
    )


def _options(site: Site) -> list[str]:
    """The options of a small job that this site takes."""
    asked = site.profile.request
    required = set(asked.required or ())
    kind, node = next(iter(site.profile.nodes.items()), (None, None))
    words = ["--site", site.name]
    if "account" in required or asked.account_example:
        words += ["-A", asked.account_example or "ACCOUNT"]
    ruled = site.profile.queue_rules
    if "partition" in required and not any(rule.partition for rule in ruled):
        words += ["-p", next((name for name, each in site.profile.partitions.items() if each.gpus != 0), "PARTITION")]
    if "qos" in required and not any(rule.qos and rule.when.trial is None for rule in ruled):
        words += ["-q", next((name for name, each in site.profile.qos.items() if each.gpus != 0), "QOS")]
    if "constraint" in required and asked.constraint and kind:
        words += ["-C", asked.constraint.get(kind, next(iter(asked.constraint.values())))]
    words += ["-N", "2", *(["-g", str(node.gpus)] if node and node.gpus else [])]
    if "cpus-per-task" in required and node and not node.cores_per_gpu:
        words += ["-c", EXAMPLE_CPUS]
    if "mem" in required and node and node.memory_mib and not site.profile.memory.mem_per_gpu:
        words += ["--mem", f"{node.memory_mib // 1024 * 9 // 10}G"]
    return [*words, "-t", EXAMPLE_TIME]


def _shell_line(site: Site) -> str:
    """A shell on a node, in plain Slurm."""
    profile = site.profile
    asked = profile.request
    required = set(asked.required or ())
    kind, node = next(iter(profile.nodes.items()), ("", NodeKind()))
    trial = next((rule for rule in profile.queue_rules if rule.when.trial), None) or next(
        iter(profile.queue_rules), None
    )
    words = ["srun"]
    if "account" in required or asked.account_example:
        words += ["-A", asked.account_example or "ACCOUNT"]
    if trial is not None:
        words += [*(["-p", trial.partition] if trial.partition else []), *(["-q", trial.qos] if trial.qos else [])]
    if kind in (asked.constraint or {}):
        words += ["-C", (asked.constraint or {})[kind]]
    words += ["-N", "1", "-t", EXAMPLE_TIME, *_gpu_words(site, node)]
    if node.cores_per_gpu:
        words += ["-c", str(node.cores_per_gpu * _gpus_of_shell(site, node))]
    share = node.mem_per_gpu or profile.memory.mem_per_gpu
    if share and profile.memory.policy == "explicit":
        words += ["--mem-per-gpu", share]
    elif "mem" in required and node.memory_mib:
        words += ["--mem", f"{node.memory_mib // 1024 // (node.gpus or 1)}G"]
    return shlex.join([*words, "--pty", "bash"])


def _gpus_of_shell(site: Site, node: NodeKind) -> int:
    """Where nodes are not shared a shell has all GPUs, and their cores."""
    return (node.gpus or 1) if site.profile.request.sharing == "exclusive" else 1


def _gpu_words(site: Site, node: NodeKind) -> list[str]:
    asked = site.profile.request
    if not node.gpus or asked.gpus == "whole-node":
        return []
    gpu_type = node.gpu_type or asked.gpu_type
    kind = f"{gpu_type}:" if gpu_type else ""
    count = _gpus_of_shell(site, node)
    return [f"--gres=gpu:{kind}{count}" if asked.gpus == "gres" else f"--gpus-per-node={kind}{count}"]


def _first_job(site: Site) -> str:
    options = shlex.join(_options(site))
    lines = [
        "See the script, and why each line is in it:",
        "\n".join(
            ["```sh", *(f"muster plan {options} --as {form} -- python train.py" for form in ("script", "why")), "```"]
        ),
        "Queue it:",
        f"```sh\nmuster submit {options} -- python train.py\n```",
    ]
    if site.name != "laptop":
        lines += ["A shell on a node, in one line:", f"```sh\n{_shell_line(site)}\n```"]
    return _section("A first job", *lines)


def _queues(site: Site) -> str:
    profile = site.profile
    rows = [
        _queue_row(site, kind, name, queue)
        for kind in ("partitions", "qos")
        for name, queue in getattr(profile, kind).items()
    ]
    columns = ("queue", "for", "GPUs a node", "nodes", "longest", "jobs", "from")
    rules = [
        f"- `{rule.partition or rule.qos or 'none named'}`: {rule.reason}{_when(rule.when)}"
        for rule in profile.queue_rules
    ]
    debug = [
        f"**For debugging**: `{name}`. {queue.fair_use or ''} {' '.join(queue.notes)}".rstrip()
        for kind in ("partitions", "qos")
        for name, queue in getattr(profile, kind).items()
        if queue.purpose in {"debug", "test"}
    ]
    chosen = "Muster takes the first of these that fits; `-p` and `-q` win:\n\n" + "\n".join(rules) if rules else ""
    return _section("Queues", _table(columns, rows), chosen, *debug)


def _when(when: schema.When) -> str:
    said = say_when(when)
    return f" ({said})" if said else ""


def _queue_row(site: Site, kind: str, name: str, queue: Queue) -> tuple[object, ...]:
    longest = queue.time_max or ", ".join(
        f"{step.time_max} to {step.nodes_max} nodes" if step.nodes_max else f"{step.time_max} to {step.gpus_max} GPUs"
        for step in queue.time_by_nodes
    )
    if queue.time_default:
        longest += f" (default {queue.time_default})"
    if queue.node_minutes_max:
        longest += f", {queue.node_minutes_max} node-minutes"
    nodes = f"{queue.nodes_min or ''}–{queue.nodes_max or ''}".strip("–") if queue.nodes_min or queue.nodes_max else ""
    jobs = "" if queue.jobs_running is None else f"{queue.jobs_running} running"
    purpose = (queue.purpose or "") + ("" if queue.open else ", not open")
    label = f"{_code(name)}{' (QOS)' if kind == 'qos' else ''}"
    return label, purpose, "" if queue.gpus is None else queue.gpus, nodes, longest, jobs, _from(site, f"{kind}.{name}")


def _asking(site: Site) -> str:
    profile = site.profile
    asked = profile.request
    rows = [
        (
            name,
            node.gpu or "",
            node.gpus or "",
            _code(_masks(node)),
            node.cores or "",
            node.cores_per_gpu or "",
            node.memory_usable or "",
        )
        for name, node in profile.nodes.items()
    ]
    lines = [
        f"- GPUs are asked for as `{asked.gpus}`{f', type `{asked.gpu_type}`' if asked.gpu_type else ''}."
        if asked.gpus
        else "",
        f"- Always given: {', '.join(f'`--{name}`' for name in asked.required)}." if asked.required else "",
        *(f"- {text[0].upper()}{text[1:]}." for text in asked.silent_defaults or ()),
        f"- Memory: {_memory(profile.memory)}." if profile.memory.policy else "",
        *(
            f"- Refused: `--{each.flag}{f'={each.value}' if each.value else ''}`: {each.reason}."
            for each in asked.forbidden
        ),
        *(f"- `{flag}`: {text}." for flag, text in asked.optional.items()),
    ]
    columns = ("kind of node", "GPU", "GPUs", "cores of each GPU", "cores", "cores a GPU", "memory")
    return _section(
        "What to ask for", _table(columns, rows), "\n".join(line for line in lines if line), _from(site, "request")
    )


def _memory(memory: schema.SiteMemory) -> str:
    return f"{memory.policy}, `--mem={memory.mem}` for a node" if memory.mem else str(memory.policy)


def _masks(node: NodeKind) -> str:
    tables = gpu_cores(node)
    return " ".join(spell_cores(each) for each in tables) if tables and node.cores_per_gpu else ""


def _ranks(site: Site) -> str:
    profile = site.profile
    launch, meeting = profile.launch, profile.rendezvous
    binding = profile.binding.kind or "what Slurm does unasked"
    lines = [
        f"- Launchers: {_list(launch.allowed)}; `{launch.preferred}` if none is named." if launch.allowed else "",
        *(f"- Not `{name}`: {why}." for name, why in launch.refused.items()),
        f"- `srun --mpi={launch.mpi}` for programs that use MPI." if launch.mpi else "",
        f"- Binding: {binding}{', on whole nodes only' if profile.binding.needs_whole_node else ''}.",
        "- Every rank sees all GPUs of its node, and takes the one of its LOCAL_RANK.",
        f"- The site's own advice: {profile.devices.site_advice}." if profile.devices.site_advice else "",
        f"- Address of rank 0: {meeting.host or 'its host name as it is'} {_code(meeting.suffix)}".rstrip() + ".",
        f"- Ports {meeting.port_low} to {meeting.port_high}." if meeting.port_low else "",
    ]
    return _section("How ranks start", "\n".join(line for line in lines if line), _from(site, "launch"))


def _variables(site: Site) -> str:
    rows = [
        (
            _code(each.name),
            "unset" if each.unset else _code(each.value),
            each.verdict + (", required" if each.required else ""),
            say_when(each.when),
            each.reason,
            _source(site, each.source),
        )
        for each in site.profile.environment
    ]
    return _section("Variables", _table(("variable", "value", "verdict", "when", "why", "from"), rows))


def _software(site: Site) -> str:
    profile = site.profile
    modules = profile.modules
    lines = [
        f"- Modules to load: {', '.join(f'`{name}`' for name in modules.load)}." if modules.load else "",
        f"- `module` exists on {modules.where} nodes only." if modules.where == "compute" else "",
        *(
            f"- {each.where}: `{shlex.join(each.argv)}`: {each.reason}."
            for each in profile.commands
            if each.verdict == "kept"
        ),
    ]
    engines = []
    for name, each in profile.containers.items():
        engines.append(f"**{name}**: {each.definition or each.engine}. {_list(each.flags or ())}".rstrip())
        engines += ["\n".join(f"{number}. {step}" for number, step in enumerate(each.build, 1))] if each.build else []
        engines.append(
            _table(("bind", "verdict", "why"), ((_code(bind.path), bind.verdict, bind.reason) for bind in each.binds))
        )
        engines += ["\n".join(f"- {note}" for note in each.notes)] if each.notes else []
    images = (
        (
            f"`site:{name}`",
            _code(each.path),
            each.gpu_library or "",
            ("gone: " if each.gone else "") + (each.reason or ""),
        )
        for name, each in profile.images.items()
    )
    return _section(
        "Software",
        "\n".join(line for line in lines if line),
        *engines,
        _table(("image", "path", "GPU library", "what"), images),
    )


def _files(site: Site) -> str:
    rows = (
        (
            _code(each.path),
            each.use,
            each.quota or "",
            f"{each.purge_days} days" if each.purge_days else "",
            " ".join([*(["counts as memory"] if each.counts_as_memory else []), *each.notes]),
        )
        for each in site.profile.filesystems.values()
    )
    network = site.profile.network
    ways = {
        "open": "Compute nodes reach the internet.",
        "nat": "Compute nodes reach the internet, through NAT.",
        "proxy": "Compute nodes reach the internet through a proxy only.",
        "none": "Compute nodes have no way out.",
        "none-even-login": "There is no way out, from login nodes neither.",
    }
    out = ways.get(network.internet or "", "")
    offline = ", ".join(f"`{name}={value}`" for name, value in network.offline.items())
    more = f" For libraries that try: {offline}." if offline else ""
    return _section("Where to put data", _table(("path", "for", "quota", "kept for", "notes"), rows), out + more)


def _bandwidth(site: Site) -> str:
    rows = (
        (
            each.collective,
            each.nodes,
            each.ranks_per_node,
            f"{each.size_mib:g} MiB",
            f"{each.busbw_gb_s:g}",
            each.broken_gb_s or "",
            each.how,
        )
        for each in site.profile.bandwidth
    )
    columns = ("collective", "nodes", "ranks a node", "size", "bus bandwidth, GB/s", "when broken", "how")
    return _section("What the fabric should give", _table(columns, rows))


def _quirks(site: Site) -> str:
    rows = ((each.symptom, each.fix, each.muster or "", _source(site, each.source)) for each in site.profile.quirks)
    return _section("What goes wrong there", _table(("what is seen", "what helps", "what Muster does", "from"), rows))


def _outdated(site: Site, papers: Sequence[Document]) -> str:
    parts = []
    for paper in papers:
        gone = [(item.says, item.now or "", item.reason) for item in paper.items if item.gone]
        if site.name in paper.sites and gone:
            where = f"*{paper.title}* ({paper.at}, {paper.dated}); all of it: [by hand](../by-hand/{paper.name}.md)."
            parts += [
                where,
                _table(
                    ("what the document says", "today", "why"), ((f"`{says}`", now, why) for says, now, why in gone)
                ),
            ]
    return _section("What an older document says and no longer holds", *parts)


_KINDS = {"site": "the site's own", "staff": "by a member of its staff", "project": "of a public project"}


def _said_there(site: Site) -> str:
    """The published scripts beside Muster's: each line that differs, and why."""
    if site.name not in PUBLISHED:
        return ""
    facts = published(site.name)
    scripts = [f"- {each.name}: {each.at} ({_KINDS[each.kind]}, {each.dated})" for each in facts.script]
    rows = [row for each in facts.script for row in compare(site.name, each)]
    same = sum(row.same for row in rows)
    shown = dict.fromkeys(_difference(row) for row in rows if not row.same and row.theirs is not None)
    added = len({row.line for row in rows if row.theirs is None})
    figures = (
        f"{len(rows)} lines compared: {same} are the same, {len(rows) - same} differ. Of those, Muster adds {added} "
        "that the scripts do not have; `muster plan --as why` gives the reason of each. The others:"
    )
    return _section(
        "What your site's page says, and what Muster does instead",
        *([facts.missing] if facts.missing else ["\n".join(scripts), figures]),
        _table(("line", "there", "Muster", "why", "from"), shown),
    )


def _difference(row: Row) -> tuple[str, str, str, str, str]:
    ours = "not written" if row.ours is None else _code(row.ours) or "written"
    return row.line, _code(row.theirs) or "written", ours, row.why or "", row.source or ""


# Directive that a published script is bent by → the limit that the lab then has to know.
_LIMITS = {"time": "time_max", "nodes": "nodes_max"}
_QUEUE_LIMITS = (
    "nodes_max",
    "nodes_min",
    "time_max",
    "time_by_nodes",
    "node_minutes_max",
    "jobs_running",
    "jobs_queued",
)


def _checked(site: Site) -> str:
    """A lab made from a profile cannot prove it: what others published can, and the rest is listed."""
    scripts = [script for script in SCRIPTS if script.site == site.name]
    if not scripts:
        return ""
    rows = [(script.at, " ".join(script.bent), script.why) for script in scripts]
    proved = {key for script in scripts for key in _proved_by(site, script)}
    alone = [key for key in _limits_of(site) if key not in proved]
    return _section(
        "Checked independently, and not",
        "A lab like this site takes these published scripts as they are, and refuses each when it is bent against the "
        "rule beside it; Muster asks for the same resources:",
        _table(("script", "bent by", "rule"), [(at, f"`{bent}`", why) for at, bent, why in rows]),
        f"Limits that only this profile asserts, and no published script tries: {_list(alone)}." if alone else "",
    )


def _proved_by(site: Site, script: Script) -> Iterator[str]:
    """The limits of the queues that a script names, as far as it is bent against them."""
    words = dict(word.removeprefix("--").partition("=")[::2] for word in (*script.directives, *script.bent))
    queues = [
        f"{kind}s.{words[kind]}" if kind == "partition" else f"qos.{words[kind]}"
        for kind in ("partition", "qos")
        if kind in words
    ]
    if "partition" not in words and "qos" not in words:
        rule = next((rule for rule in site.profile.queue_rules if rule.when.trial is None and rule.partition), None)
        queues = [f"partitions.{rule.partition}"] if rule else []
    for word in script.bent:
        limit = _LIMITS.get(word.removeprefix("--").partition("=")[0])
        if limit:
            yield from (f"{queue}.{'node_minutes_max' if 'node-minutes' in script.why else limit}" for queue in queues)


def _limits_of(site: Site) -> Iterator[str]:
    for kind in ("partitions", "qos"):
        for name, queue in getattr(site.profile, kind).items():
            yield from (f"{kind}.{name}.{field}" for field in _QUEUE_LIMITS if getattr(queue, field))


def _unknown(site: Site) -> str:
    offers = [
        f"- `{each.key}`: **unverified**: {each.value} ({each.reason}; {each.checked})"
        for each in site.profile.unverified
    ]
    absent = [
        f"- `{key}`: not published, looked for on {each.checked}{f': {each.note}' if each.note else ''}"
        for key, each in site.profile.unpublished.items()
    ]
    missing = [] if site.profile.complete else [f"No value yet: {', '.join(f'`{key}`' for key in missing_keys(site))}."]
    return _section("What is not known", "\n".join(offers), "\n".join(absent), *missing)


def _people(site: Site) -> str:
    helping = site.profile.help
    lines = [
        f"- Guide: {helping.guide}" if helping.guide else "",
        f"- Status: {helping.status}" if helping.status else "",
        f"- Support: {helping.support}" if helping.support else "",
        *(
            f"- `{name}` {each.does}; {'takes' if each.takes_our_script else 'does not take'} Muster's script."
            for name, each in helping.front_ends.items()
        ),
    ]
    return _section("Whom to ask", "\n".join(line for line in lines if line))


def _index(sites: Sequence[Site]) -> str:
    rows = (
        (
            f"[{site.name}]({site.name}.md)",
            site.profile.title,
            site.profile.summary,
            "complete" if site.profile.complete else "",
            site.profile.trust or "",
            site.profile.ran or "",
        )
        for site in sites
    )
    columns = ("site", "title", "GPUs and fabric", "known", "rests on", "ran there")
    kinds = (
        "`own`: documents of the site itself, of the last 18 months. `mixed`: those and others. "
        "`old`: older documents of the site, or without a date. `users`: only what its users published.\n\n"
        "`ran there`: the day on which a script of the profile ran at the site, as far as Muster's makers know.\n"
    )
    return "# Sites\n\n" + _table(columns, rows) + "\n" + kinds


# ---------------------------------------------------------------- a document


def _paper_page(paper: Document) -> str:
    parts = [
        f"# By hand → with Muster: {paper.title}\n",
        f"The document: {paper.at}, {paper.dated}. Its places: "
        + ", ".join(f"[{name}](../sites/{name}.md)" for name in paper.sites)
        + ". Each line of it, what became of it, and why.\n",
    ]
    for title, kinds in _GROUPS:
        rows = [
            (
                f"`{item.says}`" if item.kind != "question" else item.says,
                item.verdict + (f" {item.when}" if item.when else ""),
                item.now or "",
                item.reason,
                _code(item.key),
            )
            for item in paper.items
            if item.kind in kinds
        ]
        commands = [item.command for item in paper.items if item.kind in kinds and item.command]
        typed = "```\n" + "\n".join(commands) + "\n```" if commands else ""
        parts.append(_section(title, _table(("by hand", "verdict", "now", "why", "key of the profile"), rows), typed))
    return "\n".join(part for part in parts if part)


_GROUPS = (
    ("Questions", {"question"}),
    ("Steps", {"step", "result"}),
    ("Flags", {"flag"}),
    ("Variables", {"variable"}),
    ("Modules, binds, versions", {"module", "bind", "version"}),
    ("Workarounds", {"workaround"}),
)


# ---------------------------------------------------------------- the schema


def json_schema() -> dict[str, Any]:
    """JSON Schema of a profile, with the docstrings of the schema's files as descriptions."""
    (root,), parts = msgspec.json.schema_components([schema.Profile], ref_template="#/$defs/{name}")
    said = dict(_descriptions())
    for name, part in parts.items():
        for key, value in part.get("properties", {}).items():
            text = said.get((name, key))
            if text:
                value["description"] = text
    title = "A Muster site profile"
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": title, **root, "$defs": parts}


def _descriptions() -> Iterator[tuple[tuple[str, str], str]]:
    """((class, field), its docstring) of every field that has one."""
    files = (schema, schema_launch, schema_queues, schema_words)
    for statement in [each for file in files for each in ast.parse(inspect.getsource(file)).body]:
        if not isinstance(statement, ast.ClassDef):
            continue
        for field, words in zip(statement.body, statement.body[1:]):
            if (
                isinstance(field, ast.AnnAssign)
                and isinstance(words, ast.Expr)
                and isinstance(words.value, ast.Constant)
            ):
                name = field.target.id if isinstance(field.target, ast.Name) else ""
                yield (statement.name, name), str(words.value.value)


def main() -> int:
    """Write the files, or with --check compare them."""
    files = made()
    if "--check" in sys.argv[1:]:
        stale = [path for path, text in files.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
        for path in stale:
            print(f"{path.relative_to(DOCS.parent)} is not current: run scripts/make_site_pages.py", file=sys.stderr)
        return 1 if stale else 0
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
