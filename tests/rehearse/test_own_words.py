"""What a failed command says of its failure: real tracebacks of real Pythons, under the labels of the launchers."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from muster.runner import run
from muster_lab.rehearse.own_words import Blame, read_own_words

FAKE = """\
class cuda:
    is_available = staticmethod(lambda: False)
    device_count = staticmethod(lambda: 0)
def on_device():
    raise RuntimeError("No CUDA GPUs are available")
def on_cpu():
    raise ValueError("a shape is wrong")
"""
DEVICE = {
    "known words": "on_device()",
    "not compiled": 'raise AssertionError("Torch not compiled with CUDA enabled")',
    "a binding that a build lacks": "raise AttributeError(\"module 'torch._C' has no attribute '_cuda_setDevice'\")",
    "the driver's library": 'raise ImportError("libcuda.so.1: cannot open shared object file: No such file")',
    "nccl": 'raise RuntimeError("Distributed package doesn\'t have NCCL built in")',
    "its own words": 'raise RuntimeError("this training needs a GPU")',
    "its own words, the other way": 'raise RuntimeError("CUDA is not available on this host")',
    "an assertion without words": "assert cuda.is_available()",
    "an assertion of a count": 'assert cuda.device_count() > 0, "start it elsewhere"',
    "raised from it": 'try:\n    on_device()\nexcept RuntimeError as e:\n    raise SystemError("no start") from e',
    "raised beside the try": 'try:\n    on_device()\nexcept RuntimeError:\n    raise SystemError("no start")',
    "a whole runtime": 'raise RuntimeError("CUDA error: no CUDA-capable device is detected\\nCompile with …")',
    "a runtime's own": 'raise RuntimeError("CUDA driver error: unknown")',
    "raised from it, elsewhere": (
        'def late(e):\n    raise SystemError("no start") from e\n'
        "try:\n    on_device()\nexcept RuntimeError as e:\n    late(e)"
    ),
    "of transformers": 'raise ValueError("Your setup doesn\'t support bf16/gpu.")',
}
SCRIPT = {
    "a typo": 'raise ValueError("a typo of mine")',
    "a key that names a device": 'raise KeyError("cuda")',
    "a name": "cuda_device = cudda",
    "a file of no device": 'open("no-cuda-gpu-here.yaml")',
    "an attribute of the device's module": "cuda.no_such_thing",
    "an error after a handled one": "try:\n    on_device()\nexcept RuntimeError:\n    pass\non_cpu()",
    "an error in the way out": "try:\n    on_device()\nexcept RuntimeError:\n    on_cpu()",
    "a slip in the way out": "try:\n    on_device()\nexcept RuntimeError:\n    print(devise)",
    "an assertion of its own": "x = 3\nassert x == 4",
    "another error in an assertion": "assert next(iter(())) and cuda.is_available()",
    "an assertion that the GPU is not there": "assert not cuda.is_available() and 0",
    "a value about a device": 'raise ValueError("the batch needs no GPU, but a size")',
    "syntax": "def f(:",
    "a status": "print('no CUDA GPUs are available', file=__import__('sys').stderr); raise SystemExit(3)",
    "a warning first": 'import warnings; warnings.warn("No CUDA GPUs are available"); {}["x"]',
}


def said_by(source: str, folder: Path) -> str:
    (folder / "train.py").write_text(FAKE + source + "\n")
    done = run([sys.executable, "train.py"], cwd=folder)
    assert done.status
    return done.stderr


def under_srun(*texts: str) -> str:
    """As srun labels it, its own lines between those of the ranks."""
    lines = [f"{rank}: {line}" for rank, text in enumerate(texts) for line in text.splitlines()]
    failed = next(rank for rank, text in enumerate(texts) if text)
    return "\n".join([*lines, f"srun: error: n{failed}: task {failed}: Exited with exit code 1"]) + "\n"


@pytest.mark.parametrize("case", DEVICE)
def test_an_error_about_a_missing_device_is_the_devices(case: str, tmp_path: Path) -> None:
    text = said_by(DEVICE[case], tmp_path)

    for errors in (text, under_srun(text), under_srun(text, text)):
        assert read_own_words("", errors, "srun").blame is Blame.DEVICE


@pytest.mark.parametrize("case", SCRIPT)
def test_every_other_error_is_the_scripts(case: str, tmp_path: Path) -> None:
    text = said_by(SCRIPT[case], tmp_path)

    for errors in (text, under_srun(text), under_srun(text, text)):
        words = read_own_words("", errors, "srun")
        assert words.blame is Blame.SCRIPT
        assert words.lines[-1] == text.splitlines()[-1]


def test_a_module_that_is_missing_is_the_environments(tmp_path: Path) -> None:
    words = read_own_words("", under_srun(said_by("import no_such.module", tmp_path)), "srun")

    assert (words.blame, words.module) == (Blame.ENVIRONMENT, "no_such")


def test_one_rank_with_an_error_of_its_own_is_enough(tmp_path: Path) -> None:
    texts = said_by(DEVICE["known words"], tmp_path), said_by(SCRIPT["a typo"], tmp_path)

    words = read_own_words("", under_srun(*texts), "srun")

    assert (words.blame, words.rank, words.error) == (Blame.SCRIPT, 1, "ValueError: a typo of mine")


def test_a_rank_that_loses_a_rank_says_nothing_of_its_own(tmp_path: Path) -> None:
    lost = said_by('raise ConnectionResetError(104, "Connection reset by peer")', tmp_path)

    of_device = read_own_words("", under_srun(said_by(DEVICE["nccl"], tmp_path), lost), "srun")
    of_nobody = read_own_words("", under_srun(lost, lost), "srun")

    assert (of_device.blame, of_nobody.blame) == (Blame.DEVICE, Blame.SCRIPT)
    gloo = 'raise RuntimeError("[/x/gloo/transport/tcp/pair.cc:534] Connection closed by peer")'
    cut = 'Traceback (most recent call last):\n  File "a.py", line 1, in f'
    for text in (said_by(gloo, tmp_path), f"{lost}{cut}"):
        assert read_own_words("", under_srun(said_by(DEVICE["nccl"], tmp_path), text), "srun").blame is Blame.DEVICE


def test_a_rank_that_ends_without_a_traceback_is_not_excused_by_another(tmp_path: Path) -> None:
    errors = "\n".join(f"0: {line}" for line in said_by(DEVICE["nccl"], tmp_path).splitlines())
    errors = f"srun: error: n1: task 1: Exited with exit code 3\n{errors}\n"

    words = read_own_words("1: my last word\n", errors, "srun")

    assert (words.blame, words.rank, words.lines) == (Blame.SCRIPT, 1, ("my last word",))


def test_torch_names_the_rank_itself_and_an_agent_wraps_the_error(tmp_path: Path) -> None:
    own = "\n".join(f"[rank0]: {line}" for line in said_by(DEVICE["nccl"], tmp_path).splitlines())
    agent = 'Traceback (most recent call last):\n  File "run.py", line 1, in <module>\n    run()\n'
    agent += "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n====\ntrain.py FAILED\n"

    for errors in (f"{own}\n{agent}", f"{under_srun(own)}{agent}"):
        assert read_own_words("", errors, "torchrun").blame is Blame.DEVICE


_SRUN = "srun: error: n1: task 1: Exited with exit code 3\n"
_BROKEN = 'Traceback (most recent call last):\n\n  File "a.py", line 1, in f\nValueError: x\n'
_HALTED = _BROKEN.replace("ValueError: x", "ModuleNotFoundError: import of torch halted")


@pytest.mark.parametrize(
    ("output", "errors", "rank", "error", "lines"),
    [
        ("", _BROKEN, None, "ValueError: x", 3),
        ("", f"{_BROKEN}no GPU here\n", None, "ValueError: x", 4),
        ("", "no GPU here\n", None, "SystemExit: no GPU here", 1),
        ("", f"{_SRUN}{_BROKEN}", None, "ValueError: x", 3),
        ("", f"{_SRUN}0: a word\n{_BROKEN}", 1, "", 0),
        ("last\n", _SRUN, 1, "", 1),
        ("last\n", f"{_SRUN}word\n", 1, "", 2),
        ("0: last\n", f"{_SRUN}word\n", 1, "", 0),
        ("last\n", "", None, "", 1),
        ("last\n", "a\nb\n", None, "", 2),
        ("", _HALTED, None, "ModuleNotFoundError: import of torch halted", 3),
    ],
)
def test_whose_words_a_failure_is_told_in(output: str, errors: str, rank: int | None, error: str, lines: int) -> None:
    words = read_own_words(output, errors, "srun", ("no GPU",))

    assert (words.rank, words.error, len(words.lines), words.module) == (rank, error, lines, "")


def test_a_command_that_writes_nothing_has_no_words() -> None:
    words = read_own_words("", "srun: error: n0: task 0: Exited with exit code 3\n", "srun")

    assert (words.blame, words.error, words.lines) == (Blame.SCRIPT, "", ())
