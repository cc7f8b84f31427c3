"""`muster lint --server`, asked by a client of the Language Server Protocol over its pipes, as an editor does."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from lsprotocol import types
from pygls.lsp.client import LanguageClient

_TEXT = """\
#!/bin/bash
#SBATCH --nodes=2 --ntasks-per-node=2 --cpus-per-task=4 --time=60
export MASTER_ADDR=$(hostname) # 🦊
echo "🦊"; srun python train.py
"""


def _talk(folder: Path, talk: Callable[[LanguageClient, Callable[[], Awaitable[Any]]], Awaitable[None]]) -> None:
    """Start a server as an editor does, greet it, talk, and say goodbye."""

    async def all_of_it() -> None:
        client = LanguageClient("test", "1")
        told: asyncio.Queue[types.PublishDiagnosticsParams] = asyncio.Queue()

        @client.feature(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)  # type: ignore[untyped-decorator]
        def hear(params: types.PublishDiagnosticsParams) -> None:
            told.put_nowait(params)

        await client.start_io(sys.executable, "-m", "muster", "lint", "--server")
        await client.initialize_async(
            types.InitializeParams(capabilities=types.ClientCapabilities(), root_uri=folder.as_uri())
        )
        client.initialized(types.InitializedParams())
        await talk(client, told.get)
        await client.shutdown_async(None)
        client.exit(None)
        await client.stop()  # type: ignore[no-untyped-call]

    asyncio.run(asyncio.wait_for(all_of_it(), 600))


def _open(client: LanguageClient, uri: str, text: str) -> None:
    document = types.TextDocumentItem(uri=uri, language_id="shellscript", version=1, text=text)
    client.text_document_did_open(types.DidOpenTextDocumentParams(document))


def _asked(uri: str, line: int, kind: types.CodeActionKind) -> types.CodeActionParams:
    place = types.Range(types.Position(line, 0), types.Position(line, 1))
    context = types.CodeActionContext(diagnostics=[], only=[kind])
    return types.CodeActionParams(types.TextDocumentIdentifier(uri), place, context)


async def _actions(client: LanguageClient, params: types.CodeActionParams) -> list[types.CodeAction]:
    answer = await client.text_document_code_action_async(params)
    return [action for action in answer or () if isinstance(action, types.CodeAction)]


def _edits(action: types.CodeAction, uri: str) -> list[types.TextEdit]:
    assert action.edit is not None
    return list((action.edit.changes or {})[uri])


def test_an_editor_is_told_what_is_found_as_one_types(tmp_path: Path) -> None:
    uri = (tmp_path / "job.sbatch").as_uri()

    async def talk(client: LanguageClient, told: Callable[[], Awaitable[Any]]) -> None:
        _open(client, uri, _TEXT)
        first = {each.code: each for each in (await told()).diagnostics}
        assert "srun-survivors" in first
        survivors = first["srun-survivors"]
        # Two units of UTF-16 for the fox.
        assert survivors.range == types.Range(types.Position(3, 11), types.Position(3, 15))
        assert survivors.code_description.href.startswith("https://github.com/SchedMD/slurm/blob/")

        quick = await _actions(client, _asked(uri, 3, types.CodeActionKind.QuickFix))
        assert {action.title for action in quick} == {"Repair srun-survivors"}
        (whole,) = await _actions(client, _asked(uri, 0, types.CodeActionKind.SourceFixAll))
        (edit,) = _edits(whole, uri)
        assert "--kill-on-bad-exit=1" in edit.new_text

        change = types.TextDocumentContentChangeWholeDocument(edit.new_text)
        document = types.VersionedTextDocumentIdentifier(uri=uri, version=2)
        client.text_document_did_change(types.DidChangeTextDocumentParams(document, [change]))
        second = await told()
        assert second.version == 2
        assert "srun-survivors" not in {each.code for each in second.diagnostics}
        assert await _actions(client, _asked(uri, 3, types.CodeActionKind.QuickFix)) == []

        client.text_document_did_close(types.DidCloseTextDocumentParams(types.TextDocumentIdentifier(uri)))
        assert not (await told()).diagnostics

    _talk(tmp_path, talk)


@pytest.mark.programs
def test_a_text_that_is_no_script_does_not_end_the_server(tmp_path: Path) -> None:
    async def talk(client: LanguageClient, told: Callable[[], Awaitable[Any]]) -> None:
        for number, text in enumerate(("", "Dear all,\n", "#!/bin/csh\nset x = 1\n", "#!/bin/bash\nsrun $(((\n")):
            _open(client, (tmp_path / f"letter{number}.sh").as_uri(), text)
            await told()
        other = (tmp_path / "job.sh").as_uri()
        _open(client, other, _TEXT)
        answer = await told()
        assert (answer.uri, bool(answer.diagnostics)) == (other, True)

    _talk(tmp_path, talk)


@pytest.mark.programs
def test_the_settings_of_the_project_count_and_are_read_again(tmp_path: Path) -> None:
    uri = (tmp_path / "job.sh").as_uri()
    settings = tmp_path / ".muster.toml"
    settings.write_text('[lint]\nselect = ["srun-survivors"]\n')

    async def talk(client: LanguageClient, told: Callable[[], Awaitable[Any]]) -> None:
        _open(client, uri, _TEXT)
        assert [each.code for each in (await told()).diagnostics] == ["srun-survivors"]
        settings.write_text("[lint]\nignore = ['*']\n")
        _open(client, uri, _TEXT)
        assert not (await told()).diagnostics

    _talk(tmp_path, talk)
