"""Guards that a lab like a site has each queue on the nodes of that queue, and the site's own rules."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from muster.sites.load import load
from muster_lab.like import job_submit_lua, lab_like, say_sizes
from sites.profiles import bundled, written

QUEUES = [
    (name, queue)
    for name in ("lumi", "leonardo", "horeka", "marenostrum5")
    for queue, row in bundled(name).profile.partitions.items()
    if row.node is not None
]
_SITES = "alvis clariden frontier jupiter delta horeka karolina leonardo lonestar6 marenostrum5 vega".split()  # noqa: SIM905


@pytest.mark.parametrize(("site", "queue"), QUEUES)
def test_a_queue_has_the_hosts_of_its_kind_of_node(site: str, queue: str) -> None:
    profile = bundled(site).profile
    lab = lab_like(profile, name="like", nodes=2)
    (partition,) = [each for each in lab.partitions if each.name == queue]

    groups = {group.names: group.prefix for group in lab.groups}
    assert groups[partition.hosts] == f"{profile.partitions[queue].node}-n"


_ONE = '[nodes.one]\ngpus = 4\ncores = 64\ncores_per_gpu = 16\n[partitions.all]\nnode = "one"\ndefault = true\n'


@pytest.mark.parametrize(
    ("text", "there", "rule"),
    [
        ("", False, "then job.partition = \"gpu\""),
        (
            (
                '[[queue_rules]]\npartition = "all"\nreason = "r"\nwhen = { gpus_min = 1 }\n[partitions.gpu]\ngpus '
                "= 4"
            ),
            False,
            'then job.partition = "gpu"',
        ),
        (
            '[[queue_rules]]\nreason = "r"\nwhen = { gpus_min = 1 }\n[partitions.gpu]\ngpus = 4',
            True,
            'gpus_of(job) > 0 then job.partition = "gpu" end',
        ),
        (
            '[[queue_rules]]\nreason = "r"\nwhen = { gpus_min = 1 }\n[partitions.cpu]\ngpus = 0',
            False,
            "gpus_of(job) > 0 then job.partition =",
        ),
        (
            '[request]\nconstraint = { one = "fast" }',
            True,
            'job.features == "fast" then job.partition = "all" end',
        ),
        (
            '[request]\ngpus = "whole-node"\n[partitions.gpu]\ngpus = 4',
            True,
            'job.partition == "gpu" and gpus_of(job) == 0 then job.tres_per_node = "gres:gpu:4"',
        ),
        ('[memory]\nzero_allowed = false', True, "job.pn_min_memory == 0 then return refuse(\"--mem=0 is refused\")"),
        (
            '[[request.forbidden]]\nflag = "mem"\nvalue = "0"\nreason = "no"',
            True,
            'job.pn_min_memory == 0 then return refuse("--mem=0 is refused")',
        ),
        ('[[request.forbidden]]\nflag = "mem"\nvalue = "0"\nreason = "no"', False, "if given(job.pn_min_memory)"),
        (
            '[[request.forbidden]]\nflag = "mem"\nreason = "no"',
            True,
            'if given(job.pn_min_memory) then return refuse("no")',
        ),
        ("", False, "job.pn_min_memory == 0"),
        (
            (
                "[nodes.two]\ngpus = 2\ncores_per_gpu = 8\ncores_per_gpu_required = true\n[partitions.b]\nnode = "
                '"two"'
            ),
            True,
            "~= 8 * gpus_of(job)",
        ),
        ('[nodes.two]\ngpus = 2\ncores_per_gpu = 8\n[partitions.b]\nnode = "two"', False, "* gpus_of(job) then"),
        (
            '[request.account_suffix]\none = "-g"\n[request.constraint]\none = "fast"',
            True,
            'string.sub(job.account, -2) ~= "-g"',
        ),
        ('[request.account_suffix]\none = "-g"', False, "string.sub(job.account"),
        ('[qos.q]\nnode = "one"', True, "job.qos == \"q\" and given(job.partition) and job.partition ~= \"all\""),
        ('[qos.q]\nnode = "two"\n[nodes.two]\ngpus = 1', False, "and given(job.partition)"),
        ("[qos.q]\n", False, "and given(job.partition)"),
        (
            (
                '[partitions.b]\ntime_by_nodes = [{ nodes_max = 2, time_max = "1:00:00" }, { nodes_max = 4, '
                'time_max = "30:00" }]'
            ),
            True,
            "job.min_nodes > 2 and job.min_nodes <= 4 and given(job.time_limit) and job.time_limit > 30",
        ),
        (
            '[partitions.b]\ntime_by_nodes = [{ gpus_max = 2, nodes_max = 9, time_max = "1:00:00" }]',
            False,
            "job.min_nodes <= 9",
        ),
        (
            '[partitions.b]\ntime_min = "10:00"',
            True,
            'job.time_limit < 10 then return refuse("b wants 10:00 or more")',
        ),
        (
            '[request]\ntime_max = "1:00:00"',
            True,
            'job.time_limit > 60 then return refuse("mine allows 1:00:00")',
        ),
        (
            "[partitions.b]\nopen = false",
            True,
            'job.partition == "b" and true then return refuse("b is not open")',
        ),
    ],
)  # fmt: skip
def test_the_rules_of_a_site_are_the_labs(tmp_path: Path, text: str, there: bool, rule: str) -> None:
    site = load(str(written(tmp_path, f'muster_site = 1\nname = "mine"\ntitle = "t"\n{_ONE}{text}\n', "mine")))
    assert (rule in job_submit_lua(site.profile).partition("return slurm.ERROR\n  end\n")[2]) is there


def test_what_a_lab_like_a_site_is_made_of(golden: Callable[[Path, str], None]) -> None:
    def lines() -> Iterator[str]:
        for site in ("generic", "lumi", "jean-zay", "perlmutter", "snellius"):
            profile = bundled(site).profile
            lab = lab_like(profile, name="like")
            yield f"== {site}, cuts GPUs: {lab.cuts_gpus}"
            yield from say_sizes(profile, lab)
            yield from (f"{each.names[0]} … {each.names[-1]}: {each}" for each in lab.groups)
            for partition in lab.partitions:
                hosts = f"{len(partition.hosts)} from {partition.hosts[0]}" if partition.hosts else "all"
                yield f"{partition.name}: hosts: {hosts}, default: {partition.default}, {partition.options}"
            yield from map(str, (*lab.accounts, *lab.qos))
            own_lines = (
                (lab.job_submit_lua or "").partition("return slurm.ERROR\n  end\n")[2].partition("  return slurm.")
            )
            yield own_lines[0]
        for site in _SITES:
            lab = lab_like(bundled(site).profile, name="like", nodes=3, account="mine", slurm="24.11")
            told = str(dataclasses.replace(lab, job_submit_lua=""))
            rules = (lab.job_submit_lua or "").partition("return slurm.ERROR\n  end\n")[2].splitlines()
            yield f"{site}: {' ⏎ '.join([told, *rules])}"

    golden(Path(__file__).parent.parent / "golden/like.txt", "\n".join(lines()))
