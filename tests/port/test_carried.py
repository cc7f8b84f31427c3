"""What one site names and another does not know: an image, a bound folder, the CPUs of a rank; each by a table."""

from __future__ import annotations

from pathlib import Path

import pytest

from muster.sites.load import load
from muster.sites.site import Site
from muster_lint.port.carry import _cpus, carry
from muster_lint.port.carry_environment import _binds, carry_image
from muster_lint.port.target import Route
from muster_lint.port.values import Draft, Fate
from sites.profiles import bundled, written

from .scripts import FACTS, read

_KEPT, _ASKED, _CHANGED, _LEFT_OUT = Fate.KEPT, Fate.ASKED, Fate.CHANGED, Fate.DROPPED


def _site(folder: Path, name: str, text: str = "") -> Site:
    return load(str(written(folder, f'muster_site = 1\nname = "{name}"\ntitle = "{name}"\n{text}', name)))


def _node(**facts: object) -> str:
    lines = "".join(f"{key} = {value!r}\n".replace("'", '"') for key, value in facts.items())
    return f'[nodes.one]\n{lines}\n[partitions.all]\nnode = "one"\ndefault = true\n'


_CUDA = {"gpus": 4, "gpu_kind": "cuda", "arch": "x86_64"}
_ROCM = {"gpus": 4, "gpu_kind": "rocm", "arch": "x86_64"}
_ARM = {"gpus": 4, "gpu_kind": "cuda", "arch": "aarch64"}


def _draft(step: str, header: str = "#SBATCH --nodes=2\n#SBATCH --gpus-per-node=4\n") -> Draft:
    return read(f"#!/bin/bash\n{header}{step}\n")[1]


@pytest.mark.parametrize(
    ("source", "target", "image", "value", "says"),
    [
        (_CUDA, _ROCM, "/i/x.sif", "/i/x.sif", "it is made for cuda, but there has rocm"),
        (_CUDA, _ARM, "/i/x.sif", "/i/x.sif", "it is made for x86_64, but there has aarch64"),
        (_CUDA, _CUDA, "/i/x.sif", "/i/x.sif", "bring it to there"),
        (_CUDA, {"gpus": 0, "arch": "x86_64"}, "/i/x.sif", "/i/x.sif", "bring it to there"),
        ({"gpus": 0, "arch": "x86_64"}, _CUDA, "/i/x.sif", "/i/x.sif", "bring it to there"),
        (_CUDA, {"gpus": 4, "gpu_kind": "cuda"}, "/i/x.sif", "/i/x.sif", "bring it to there"),
        ({"gpus": 4, "gpu_kind": "cuda"}, _CUDA, "/i/x.sif", "/i/x.sif", "bring it to there"),
        (_CUDA, None, "/i/x.sif", "/i/x.sif", "bring it to there"),
        (None, _CUDA, "/i/x.sif", "/i/x.sif", "bring it to there"),
        (_CUDA, _CUDA, "box/", "box/", "bring it to there"),
        (_CUDA, _CUDA, "x.sqsh", "x.sqsh", "bring it to there"),
        (_CUDA, _CUDA, "pytorch", "IMAGE.sif", "pytorch is the name of an image at here"),
    ],
)
def test_an_image_is_a_file_of_one_site(
    tmp_path: Path,
    source: dict[str, object] | None,
    target: dict[str, object] | None,
    image: str,
    value: str,
    says: str,
) -> None:
    draft = _draft("srun apptainer exec i.sif python a.py")
    draft.values["image"] = [image]
    here, there = (
        _site(tmp_path, name, "" if facts is None else _node(**facts))
        for name, facts in (("here", source), ("there", target))
    )
    carry_image(draft, Route(here, there, None))

    row = next(row for row in draft.rows if row.field == "image")
    assert (draft.get("image"), row.verdict) == (value, _ASKED)
    assert row.why.startswith(says)


def test_an_image_of_no_known_site_is_brought(tmp_path: Path) -> None:
    draft = _draft("srun apptainer exec i.sif python a.py")
    carry_image(draft, Route(None, _site(tmp_path, "there", _node(**_CUDA)), None))

    assert next(row.why for row in draft.rows if row.field == "image").startswith("bring it to there")


@pytest.mark.parametrize("image", ["docker://a/b:1", "site:torch"])
def test_an_image_of_a_registry_is_no_file(tmp_path: Path, image: str) -> None:
    draft = _draft("srun apptainer exec i.sif python a.py")
    draft.values["image"] = [image]
    before = next(row for row in draft.rows if row.field == "image")
    carry_image(draft, Route(_site(tmp_path, "here"), _site(tmp_path, "there"), None))

    assert next(row for row in draft.rows if row.field == "image") == before


@pytest.mark.parametrize(
    ("path", "verdict", "kept", "says"),
    [
        ("/work/me", _ASKED, False, "a path of here"),
        ("/work", _ASKED, False, "a path of here"),
        ("/workshop", _ASKED, True, "is the path there at there?"),
        ("/usr/lib/x", _LEFT_OUT, False, "a part of here itself"),
        ("/tmp", _KEPT, True, ""),
        ("/data", _ASKED, True, "is the path there at there?"),
        ("/home/ada", _ASKED, True, "is the path there at there?"),
    ],
)
def test_a_bound_folder_is_asked_for_where_it_is_another_sites(
    tmp_path: Path, path: str, verdict: Fate, kept: bool, says: str
) -> None:
    folders = {"work": "/work/$USER", "own": "$HOME"}
    systems = "".join(
        f'[filesystems.{name}]\npath = "{place}"\nscope = "shared"\nuse = "work"\n' for name, place in folders.items()
    )
    draft = _draft(f"cd {path}\nsrun apptainer exec -B {path} i.sif python a.py")
    folder_row = next((row for row in draft.rows if row.field == "chdir"), None)
    _binds(draft, Route(_site(tmp_path, "here", systems), _site(tmp_path, "there"), None))

    row = next(row for row in draft.rows if row.field == "bind")
    assert (row.verdict, bool(draft.values.get("bind"))) == (verdict, kept)
    assert says in row.why
    assert next((row for row in draft.rows if row.field == "chdir"), None) == folder_row


@pytest.mark.parametrize(
    ("node", "header", "value", "verdict"),
    [
        ({**_CUDA, "cores": 64, "cores_per_gpu": 16}, "--gpus-per-node=4", None, _LEFT_OUT),
        ({**_CUDA, "cores": 64}, "--gpus-per-node=4\n#SBATCH --ntasks-per-node=4", "16", _CHANGED),
        ({**_CUDA, "cores": 64}, "--gpus-per-node=4", "40", _KEPT),
        ({"cores": 64, "cores_per_gpu": 16}, "--ntasks-per-node=2", "32", _CHANGED),
        ({"cores": 64}, "--ntasks-per-node=2", "32", _CHANGED),
        ({"cores": 128}, "--ntasks-per-node=2", "40", _KEPT),
        ({"cores": 80}, "--ntasks-per-node=2", "40", _KEPT),
        ({"cores": 1}, "--ntasks-per-node=2", "1", _CHANGED),
        ({"gpus": 4}, "--ntasks-per-node=2", "40", _KEPT),
        (None, "--ntasks-per-node=2", "40", _KEPT),
    ],
)
def test_a_rank_has_its_share_of_the_cores_of_the_other_node(
    tmp_path: Path, node: dict[str, object] | None, header: str, value: str | None, verdict: Fate
) -> None:
    text = f"#SBATCH --nodes=2\n#SBATCH {header}\n#SBATCH --cpus-per-task=40\n"
    draft = _draft("srun python a.py", text)
    there = _site(tmp_path, "there", "" if node is None else _node(**node))
    _cpus(draft, Route(bundled("generic"), there, None))

    assert draft.get("cpus_per_task") == value
    assert next(row.verdict for row in draft.rows if row.field == "cpus_per_task") == verdict


_TORCH = "#SBATCH --nodes=2\n#SBATCH --gpus-per-node=4\n#SBATCH --ntasks-per-node=4\n"
_THERE = '[nodes.one]\ngpus = 4\ncores = 64\nMEMORY\n[partitions.all]\nnode = "one"\ndefault = true\ngpus = 4\n'
_MODULES = "module load cuda/11 cuda/10 gcc/9 zz"


@pytest.mark.parametrize(
    ("target", "header", "before", "field", "values", "says"),
    [
        # what is a word of one site
        ('[request]\nfeatures = ["fast"]', "--constraint=fast", "", "constraint", ["fast"], ""),
        ('[request]\nfeatures = ["fast"]', "--nodelist=fast", "", "nodelist", None, "fast: nodes of here"),
        ("", "--constraint=fast", "", "constraint", None, "fast: a feature of here"),
        ("", "--gres=nic:2", "", "gres", None, "nic:2: a resource of here"),
        ("", "--distribution=nopack", "", "distribution", None, "a word of here"),
        ("", "--switches=1", "", "sbatch", [], "the switches of one site"),
        ("", "--exclusive", "", "exclusive", [""], ""),
        ('[request]\nsharing = "exclusive"', "--exclusive", "", "exclusive", None, "gives whole nodes to every job"),
        # memory and time
        ("", "--mem=0", "", "mem", ["409600M"], "a node of there gives 409600 MiB at most"),
        ("", "--mem=401G", "", "mem", ["409600M"], "a node of there gives 409600 MiB at most"),
        ("", "--mem=400G", "", "mem", ["400G"], ""),
        ("# no memory", "--mem=0", "", "mem", None, "what there gives for it is not known"),
        ("# no memory", "--mem=900G", "", "mem", ["900G"], ""),
        ('[memory]\npolicy = "explicit"', "--mem=9G", "", "mem", ["9G"], ""),
        ('[memory]\npolicy = "explicit"\nmem = "8G"', "--mem=9G", "", "mem", None, "wants it asked for"),
        ('[memory]\npolicy = "explicit"\nmem_per_gpu = "8G"', "--mem=9G", "", "mem", None, "wants it asked for"),
        ('[partitions.b]\ntime_max = "1-00:00:00"', "--time=2-00", "", "time", ["1-00:00:00"], "let the job save"),
        ('[partitions.b]\ntime_max = "UNLIMITED"', "--time=2-00", "", "time", ["2-00"], ""),
        ('[partitions.b]\ntime_max = "10:00"\nopen = false', "--time=2-00", "", "time", ["2-00"], ""),
        ('[partitions.b]\ntime_max = "10:00"\npurpose = "debug"', "--time=2-00", "", "time", ["2-00"], ""),
        (
            '[[queue_rules]]\npartition = "all"\nreason = "r"\n[partitions.b]\ntime_max = "10:00"',
            *("--time=2-00", "", "time", ["2-00"], ""),
        ),
        # how ranks are started
        ('[launch]\nmpi = "pmix"', "", "srun --mpi=pmi2 ", "mpi", ["pmix"], "of here; there has pmix"),
        ('[launch]\nmpi = "pmix"\nmpi_types = ["cray"]', "", "srun --mpi=pmi2 ", "mpi", None, "torch need none"),
        ('[launch]\nmpi = "pmix"\nmpi_types = ["pmi2"]', "", "srun --mpi=pmi2 ", "mpi", ["pmi2"], ""),
        ("", "", "srun --mpi=pmi2 ", "mpi", None, "torch need none"),
        ('[launch]\nallowed = ["torchrun"]', "", "mpirun -n 8 ", "launcher", None, "not how ranks start at there"),
        ('[launch]\nallowed = ["srun"]', "", "mpirun -n 8 ", "launcher", ["srun"], "not how ranks start at there"),
        ('[launch]\nallowed = ["mpirun"]', "", "mpirun -n 8 ", "launcher", ["mpirun"], ""),
        ("", "", "mpirun -n 8 ", "launcher", ["mpirun"], ""),
        # modules and variables
        ('[modules]\nload = ["cuda/12"]', "", f"{_MODULES}\nsrun ", "module", [], "cuda/12 is loaded by the plan"),
        ('[modules]\nsystem = "none"', "", f"{_MODULES}\nsrun ", "module", [], "a module: there has no modules"),
        (
            '[modules]\ncatalogue = ["cuda/12.4", "gcc/13"]',
            *("", f"{_MODULES}\nsrun ", "module", ["cuda/12.4"], "CUDA: cuda/12.4 is loaded by the plan"),
        ),
        (
            '[[environment]]\nname = "A"\nunset = true\nreason = "r"',
            *("", "export A=1 B=2\nsrun ", "env", ["B=2"], "there: not set, for r"),
        ),
        (
            '[[environment]]\nname = "A"\nvalue = "7"\nreason = "r"',
            *("", "export A=1 B=2\nsrun ", "env", ["B=2"], "there: 7, for r"),
        ),
        # places
        ("", "--output=/o/x", "", "output", ["/o/x"], "a path of here: is it there at there?"),
        ("", "--output=x", "", "output", ["x"], ""),
        ("", "--chdir=/w", "", "chdir", ["/w"], "is it there at there?"),
        ("", "", "conda activate none\nsrun ", "conda", ["none"], "none is a name"),
    ],
)  # fmt: skip
def test_what_is_a_word_of_one_site_is_carried_by_what_it_means(
    tmp_path: Path, target: str, header: str, before: str, field: str, values: list[str] | None, says: str
) -> None:
    memory = "" if target == "# no memory" else 'memory_usable = "400G"'
    there = _site(tmp_path, "there", f"{_THERE.replace('MEMORY', memory)}{target}\n")
    lines = "".join(f"#SBATCH {word}\n" for word in header.split())
    draft = _draft(f"{before or 'srun '}python t.py", f"{_TORCH}{lines}")

    made = carry(draft, there, _site(tmp_path, "here"), FACTS)

    assert made.draft.values.get(field) == values
    found = [row.why for row in made.draft.rows if says and says in row.why]
    assert bool(found) is bool(says)


@pytest.mark.parametrize(
    ("target", "nodes", "gpus", "ranks", "now"),
    [
        ("", 2, 8, 8, ("4", "4", None)),
        ("", 2, 8, 16, ("2", "4", "4")),
        ("", 2, 8, 2, ("2", "4", "2")),
        ("", 2, 3, 3, ("2", "3", None)),
        ("", 3, 8, 8, ("6", "4", None)),
        ('[request]\nsharing = "exclusive"', 2, 3, 3, ("2", "3", None)),
        ('[request]\nsharing = "exclusive"', 4, 2, 2, ("2", "4", None)),
        ('[request]\nsharing = "exclusive"', 1, 2, 2, ("1", "2", None)),
        ('[request]\ngpus = "whole-node"', 1, 3, 3, ("1", "4", None)),
        ('[request]\ngpus = "whole-node"', 1, 4, 4, ("1", "4", None)),
    ],
)
def test_the_same_ranks_are_on_nodes_with_other_gpus(
    tmp_path: Path, target: str, nodes: int, gpus: int, ranks: int, now: tuple[str | None, ...]
) -> None:
    there = _site(tmp_path, "there", f"{_THERE.replace('MEMORY', '')}{target}\n")
    header = f"#SBATCH --nodes={nodes}\n#SBATCH --gpus-per-node={gpus}\n#SBATCH --ntasks-per-node={ranks}\n"

    made = carry(_draft("srun python t.py", header), there, _site(tmp_path, "here"), FACTS)

    assert tuple(made.draft.get(field) for field in ("nodes", "gpus_per_node", "ntasks_per_node")) == now


@pytest.mark.parametrize(
    ("pattern", "example", "typed", "account", "verdict"),
    [
        ("p[0-9]+", "p1", None, "p1", _ASKED),
        ("p[0-9]+", "", None, "abc", _KEPT),
        ("[a-z0-9]+", "p1", None, "abc", _KEPT),
        ("p[0-9]+", "p1", "abd", "abc", _KEPT),
    ],
)
def test_an_account_of_another_form_is_asked_about_at_its_own_site(
    tmp_path: Path, pattern: str, example: str, typed: str | None, account: str, verdict: Fate
) -> None:
    more = f'[request]\naccount_pattern = "{pattern}"\n' + (f'account_example = "{example}"\n' if example else "")
    here = _site(tmp_path, "here", f"{_THERE.replace('MEMORY', '')}{more}")

    made = carry(_draft("srun python t.py", f"{_TORCH}#SBATCH --account=abc\n"), here, here, FACTS, account=typed)

    (row,) = [row for row in made.draft.rows if row.field == "account"]
    assert (made.draft.get("account"), row.verdict) == (account, verdict)


@pytest.mark.parametrize(
    ("loaded", "modules", "verdicts"),
    [
        ("old/1", ["new"], [_CHANGED]),
        ("old/2", ["newer"], [_CHANGED]),
        ("other", ["other"], []),
        ("open", [], [_ASKED]),
        ("old/1 new", ["new"], [_ASKED]),
    ],
)
def test_a_module_that_its_site_has_renamed_has_its_new_name(
    tmp_path: Path, loaded: str, modules: list[str], verdicts: list[Fate]
) -> None:
    renamed = '[modules]\nrenamed = { old = "new", "old/2" = "newer", open = "this or that" }\n'
    here = _site(tmp_path, "here", f"{_THERE.replace('MEMORY', '')}{renamed}")

    made = carry(_draft(f"module load {loaded}\nsrun python t.py", _TORCH), here, here, FACTS)

    assert made.draft.values.get("module", []) == modules
    assert [row.verdict for row in made.draft.rows if "renamed" in row.why] == verdicts


@pytest.mark.parametrize(("name", "verdict"), [("env", _ASKED), ("/w/env", _KEPT)])
def test_an_environment_of_conda_that_has_a_name_alone_is_asked_for(tmp_path: Path, name: str, verdict: Fate) -> None:
    here = _site(tmp_path, "here", _THERE.replace("MEMORY", ""))

    made = carry(_draft(f"conda activate {name}\nsrun python t.py", _TORCH), here, here, FACTS)

    (row,) = [row for row in made.draft.rows if row.field == "conda"]
    assert (row.verdict, "is a name" in row.why) == (verdict, verdict is _ASKED)
