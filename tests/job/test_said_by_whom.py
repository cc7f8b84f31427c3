"""Whom the reasons of a plan name, and what is said of the mistakes that newcomers make with values."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from muster.errors import ProfileError, RequestError
from muster.facts import Facts
from muster.job.option import parse_gpus, parse_gres
from muster.job.request import Request
from muster.job.settings import merge_settings, system_file
from muster.look.probe import settings_files
from plugins.forked import run_muster

SYSTEM_FILE = system_file({})


def request_of(path: str, **environment: str) -> Request:
    settings = merge_settings([(path, 'partition = "big"\n')], environment)
    return Request(
        command=("x",),
        **{name: value for name, (value, _) in settings.items()},
        origins={name: origin for name, (_, origin) in settings.items()},
    )


@pytest.mark.parametrize(
    ("line", "said"),
    [("hang = false", "'false' is not a time limit"), ("time = true", "'true' is not"), ("nodes = 1.5", "1.5")],
)
def test_a_value_that_is_none_is_told_as_the_file_has_it(line: str, said: str) -> None:
    with pytest.raises(ProfileError, match=said):
        merge_settings([("muster.toml", f"{line}\n")], {})


def test_what_stands_in_etc_was_set_by_the_administrator() -> None:
    assert request_of(SYSTEM_FILE).set_by("partition") == "set by the administrator"
    assert request_of("/home/you/.config/muster/config.toml").set_by("partition") == "set by you"
    assert request_of(SYSTEM_FILE).set_by("account") == "set by you"


def test_the_folder_of_a_module_file_is_the_administrators_in_the_place_of_etc() -> None:
    module = {"MUSTER_SYSTEM_DIRECTORY": "/opt/muster/etc"}
    assert request_of("/opt/muster/etc/config.toml", **module).set_by("partition") == "set by the administrator"
    assert request_of(SYSTEM_FILE, **module).set_by("partition") == "set by you"
    assert system_file({"MUSTER_SYSTEM_DIRECTORY": ""}) == "/etc/muster/config.toml"
    with pytest.raises(RequestError, match="named from / on"):
        system_file({"MUSTER_SYSTEM_DIRECTORY": "opt/muster"})


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        ("a100:4", "-g 4 --gpu-type a100 names"),
        ("gpu:a100:4", "-g 4 --gpu-type a100 names"),
        ("a100", "a whole number from 0"),
        ("a100:x", "a whole number from 0"),
    ],
)
def test_a_type_of_gpu_has_its_own_option(value: str, hint: str) -> None:
    with pytest.raises(RequestError) as caught:
        parse_gpus(value)
    assert hint in str(caught.value.hint)
    assert parse_gpus("4") == 4


@pytest.mark.parametrize(
    ("launcher", "hint"),
    [
        ("accelerate", "--launcher torchrun does the work of accelerate"),
        ("Horovod", "--launcher mpirun does the work of Horovod"),
        ("torchrn", "did you mean 'torchrun'?"),
    ],
)
def test_a_launcher_of_another_name_is_told_which_does_its_work(launcher: str, hint: str) -> None:
    with pytest.raises(RequestError, match="is not a known value") as caught:
        merge_settings([], {"MUSTER_LAUNCHER": launcher})
    assert caught.value.hint == hint


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--mem 4 GB python x.py", "hint: --mem 4G\n"),
        ("--mem=4 GB python x.py", "hint: --mem=4G\n"),
        ("-N 2 -t 1 hour python x.py", "hint: -t 1h\n"),
        ("--mem 4 -- GB python x.py", None),
        ("GB python x.py", None),
        ("--job-name x GB", None),
    ],
)
def test_a_unit_behind_its_number_is_no_command(words: str, said: str | None, tmp_path: Path) -> None:
    done = run_muster(["plan", *words.split()], env=os.environ, cwd=tmp_path)
    if said is None:
        assert "is one word" not in done.stderr
    else:
        assert done.status == 2
        assert said in done.stderr


@pytest.mark.parametrize(
    "value", ["gpu", "gpu:4", "gpu:a100:2", "gres/gpu:volta=2", "gpu:1,shard:2", "tmpfs:10G", "gpu:a100"]
)
def test_a_list_of_resources_is_taken_as_it_is(value: str) -> None:
    assert parse_gres(value) == value


@pytest.mark.parametrize(
    "value", ["gpu:", "gpu:a100:", "gpus:1", "GPU:1", "gpu-1", "4", "gpu:1:a100", "gpu;1", "gpu:1,", "gpu4"]
)
def test_a_list_that_sbatch_refuses_is_refused_before_it(value: str) -> None:
    # each was asked of sbatch 22.05, 24.11 and 26.05
    with pytest.raises(RequestError) as raised:
        parse_gres(value)

    assert "gpu:4" in (raised.value.hint or "")


def test_a_settings_file_of_another_encoding_is_told_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / ".config/muster/config.toml"
    file.parent.mkdir(parents=True)
    facts = Facts(home=str(tmp_path), working_directory=str(tmp_path))
    file.write_bytes(b'\xef\xbb\xbfpartition = "big"\r\n')
    assert settings_files(facts) == [(str(file), 'partition = "big"\n')], "with the mark that Windows puts there"
    file.write_bytes(b'time = 30\npartition = "gr\xf6\xdfe"\n')
    with pytest.raises(RequestError, match=r"config\.toml:2: is not UTF-8 text") as caught:
        settings_files(facts)
    assert caught.value.hint == "save it as UTF-8"


def test_a_pipe_in_the_place_of_a_settings_file_is_not_waited_for(tmp_path: Path) -> None:
    file = tmp_path / ".config/muster/config.toml"
    file.parent.mkdir(parents=True)
    os.mkfifo(file)
    with pytest.raises(RequestError, match=r"config\.toml is a pipe, not a file"):
        settings_files(Facts(home=str(tmp_path), working_directory=str(tmp_path)))
