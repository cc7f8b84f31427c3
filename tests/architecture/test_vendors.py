"""No file outside the table decides by a vendor's word; those that may have a reason here."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

from muster.rank.vendors import VENDORS

from .paths import SOURCE, nodes_of

TABLE = "muster/rank/vendors.py"
MAY: dict[str, str] = {
    "muster_lint/": "the rules read what other people's scripts say",
    "muster/probe/judge.py": "a lab's Slurm declares all GPUs as NVIDIA's",
    "muster/probe/text.py": "a lab's Slurm declares all GPUs as NVIDIA's",
    "muster_lab/rehearse/source.py": "it reads what a user's script asks of torch",
    "muster/images/apptainer.py": "an engine's own flags, by kind",
    "muster/images/oci.py": "an engine's own flags, by kind",
    "muster_check/ranks/gather.py": "each kernel driver shows its GPUs in its own way: one reader each",
    "muster_check/ranks/smi.py": "each tool prints in its own way: one reader each",
    "muster_check/ranks/variables.py": "contradictions of AMD's two filters; NCCL's version",
    "muster/plan/built_with.py": "the version of NCCL that a record holds",
    "muster_check/survey/draft.py": "each tool prints in its own way: one reader each",
    "muster_bench/ranks/series.py": "the version of NCCL, where torch has one",
    "muster/rank/describe.py": "the version of NCCL, where torch has one",
}


@cache
def vendor_words() -> set[str]:
    """Return what the table says, as code would write it in a comparison."""
    words: set[str] = set()
    for vendor in VENDORS:
        words |= {vendor.kind, vendor.device, vendor.backend, vendor.torch_version, *vendor.visible, *vendor.signs}
        words |= {word for argv in (*vendor.tools.values(), *vendor.survey.values()) for word in argv[:1]}
    return words - {"dmesg"}


@cache
def literals(path: Path) -> list[tuple[int, str]]:
    """Return the strings of a file that are exactly a vendor's word, with their lines."""
    words, source = vendor_words(), path.read_text()
    if not any(word in source for word in words):
        return []
    return [
        (node.lineno, node.value)
        for node in nodes_of(source)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in words
    ]


def files() -> list[str]:
    """Return the sources that are not excused, by their paths below the package."""
    names = (str(path.relative_to(SOURCE)) for path in sorted(SOURCE.rglob("*.py")))
    return [name for name in names if name != TABLE and not name.startswith(tuple(MAY))]


def test_only_the_table_names_a_vendor() -> None:
    assert {name: found for name in files() if (found := literals(SOURCE / name))} == {}


def test_the_shell_parts_take_the_words_from_the_table() -> None:
    words = {word for word in vendor_words() if word.startswith("/") or word.isupper()}
    texts = {path.name: path.read_text() for path in sorted((SOURCE / "muster/render/shell").rglob("*.sh"))}
    assert {(name, word) for name, text in texts.items() for word in words if word in text} == set()


def test_every_excuse_is_needed() -> None:
    needed = set()
    for path in SOURCE.rglob("*.py"):
        name = str(path.relative_to(SOURCE))
        if name != TABLE and any(literals(path)):
            needed |= {excuse for excuse in MAY if name.startswith(excuse)}
    assert set(MAY) - needed == set()
