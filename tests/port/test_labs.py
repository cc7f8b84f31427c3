"""What comes out is taken by a lab like the target: a real sbatch, with the rules of that site, as an ordinary user."""

from __future__ import annotations

import io
import re
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from muster.render.script import job_script
from muster_lint.port.carry import carry
from muster_lint.port.target import facts_of
from plugins.labs import Lab, Person, lab_up
from sites.profiles import bundled

from .published import rebuilt, scripts
from .scripts import HOMES, REFERENCE, carried, read

# Four of 76: caches that three keep in a folder of their site, outside the image; 112 ranks on a node of Stampede3's.
MOST_REFUSED = 0.06
# The largest of the reference scripts has 32 GPUs: 16 nodes of two.
NODES = "16"

# The scripts come by stdin: the lab's ordinary user cannot look into a checkout below /root.
_EACH = """\
cd "$(mktemp -d)" && tar x || exit
for script in *; do said=$(sbatch --test-only <"$script" 2>&1) || echo "$script: $said"; done
rm -r "$PWD"
"""


def _reference(site: str) -> Iterator[tuple[str, str]]:
    for name, text in REFERENCE.items():
        if name != site:
            made = carried(text, site, name if name in HOMES else None)
            assert made.plan is not None, made.refusal
            yield f"reference-{name}", job_script(made.plan)


def _published(site: str) -> Iterator[tuple[str, str]]:
    for number, (source, script) in enumerate(scripts()):
        made = carried(rebuilt(script), site, source) if source != site else None
        if made is not None:
            yield f"{source}-{number}", "" if made.plan is None else job_script(made.plan)


def _refused(lab: Lab, texts: dict[str, str]) -> list[str]:
    """Return what sbatch said to the scripts that it does not take."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name, text in texts.items():
            data = _in_the_lab(text).encode()
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    done = lab.exec(["sh", "-c", _EACH], user="alice", stdin=packed.getvalue().decode())
    assert done.status == 0, done.stderr
    return done.stdout.splitlines()


def _in_the_lab(text: str) -> str:
    """Return a script whose nodes the lab has; where no account's form is published, the lab has one called lab."""
    text = re.sub(
        r"^#SBATCH --nodes=(\d+)$", lambda match: f"#SBATCH --nodes={min(int(match[1]), 16)}", text, flags=re.MULTILINE
    )
    return text.replace("--account=ACCOUNT", "--account=lab")


def _check(lab: Lab, site: str) -> None:
    """Every reference script is taken, and of the published ones at least 94 of 100."""
    assert _refused(lab, dict(_reference(site))) == []
    published = dict(_published(site))
    planned = {name: text for name, text in published.items() if text}
    refused = [*_refused(lab, planned), *(name for name, text in published.items() if not text)]
    assert len(published) >= 25
    print(f"{site}: {len(published) - len(refused)} of {len(published)} published scripts are taken")
    assert len(refused) <= MOST_REFUSED * len(published), refused


@pytest.mark.lab
def test_a_lab_like_lumi_takes_what_comes_from_other_sites_and_runs_it(tester: Person, scratch: Path) -> None:
    with lab_up(tester, "port-lumi", "--like", "lumi", "-N", NODES) as lab:
        _check(lab, "lumi")
        folder = scratch / "ported"
        folder.mkdir()
        assert sorted(_ranks_of(lab, folder)) == [f"rank {rank} of 4, 5" for rank in range(4)]


_MADE_FOR_ANOTHER = """\
#!/bin/bash
#SBATCH --nodes=2 --ntasks-per-node=2 --gres=gpu:2 --cpus-per-task=20
#SBATCH --time=00:05:00 --account=bsc98 --qos=acc_debug
module load singularity
export SHOWN=5
export MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
srun --cpus-per-task=20 bash -c 'echo "rank $RANK of $WORLD_SIZE, $SHOWN"'
"""


def _ranks_of(lab: Lab, folder: Path) -> list[str]:
    """Run a small script of another site, and return what its ranks wrote."""
    facts = facts_of(str(folder), str(folder), "root")
    _, draft = read(_MADE_FOR_ANOTHER)
    draft.values["node_prologue"] = ["true"]  # the hosts of the lab have no rocm-smi
    made = carry(draft, bundled("lumi"), bundled("marenostrum5"), facts)
    assert made.plan is not None, made.refusal
    (folder / "there.sbatch").write_text(job_script(made.plan))
    done = lab.batch("there.sbatch", cwd=folder)
    logs = "\n".join(path.read_text() for path in folder.glob("slurm-*.out"))
    assert done.status == 0, f"{done.stderr}{logs}"
    return re.findall(r"rank \d of \d, \d", logs)


@pytest.mark.lab
@pytest.mark.long
@pytest.mark.parametrize("site", [site for site in HOMES if site != "lumi"])
def test_a_lab_like_each_site_takes_what_comes_from_the_others(site: str, tester: Person) -> None:
    with lab_up(tester, f"port-{site}", "--like", site, "-N", NODES) as lab:
        _check(lab, site)
