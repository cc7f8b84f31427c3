"""`muster lint --server`: findings in an editor as one types, and their repairs, over the Language Server Protocol."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from muster import __version__
from muster.errors import MachineLacks, MusterError
from muster_lint.fix import is_certain, settled_text
from muster_lint.look import lint_source
from muster_lint.read import source_of
from muster_lint.settings import LintTable, forget_settings, settings_for
from muster_lint.sources import address_of
from muster_lint.values import LintFinding, Severity, TextSpan

if TYPE_CHECKING:
    from lsprotocol import types
    from pygls.lsp.server import LanguageServer
    from pygls.workspace import TextDocument

    from muster.sites.site import Site


def serve(site: Site | None) -> int:
    """Talk to an editor until it says goodbye."""
    server = make_server(site)
    server.start_io()
    return 0


def make_server(site: Site | None) -> LanguageServer:
    """Return a server that looks at each text that is opened or changed."""
    if find_spec("pygls") is None:
        from muster.look.installation import installation

        message = "an editor is served with pygls, which this installation of Muster lacks"
        raise MachineLacks("pygls", message, installation().command_to_add("pygls"))
    from lsprotocol import types
    from pygls.lsp.server import LanguageServer

    server = LanguageServer("muster-lint", __version__, text_document_sync_kind=types.TextDocumentSyncKind.Incremental)

    def publish(uri: str) -> None:
        document = server.workspace.get_text_document(uri)
        diagnostics = [_diagnostic(document, finding) for finding in _findings(document, site)]
        server.text_document_publish_diagnostics(
            types.PublishDiagnosticsParams(uri=uri, diagnostics=diagnostics, version=document.version)
        )

    @server.feature(types.TEXT_DOCUMENT_DID_OPEN)
    def opened(params: types.DidOpenTextDocumentParams) -> None:
        publish(params.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_DID_CHANGE)
    def changed(params: types.DidChangeTextDocumentParams) -> None:
        publish(params.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_DID_CLOSE)
    def closed(params: types.DidCloseTextDocumentParams) -> None:
        server.text_document_publish_diagnostics(
            types.PublishDiagnosticsParams(uri=params.text_document.uri, diagnostics=[])
        )

    kinds = [types.CodeActionKind.QuickFix, types.CodeActionKind.SourceFixAll]

    @server.feature(types.TEXT_DOCUMENT_CODE_ACTION, types.CodeActionOptions(code_action_kinds=kinds))
    def actions(params: types.CodeActionParams) -> list[types.CodeAction]:
        document = server.workspace.get_text_document(params.text_document.uri)
        return _actions(document, params, _findings(document, site), site)

    return server


def _findings(document: TextDocument, site: Site | None) -> list[LintFinding]:
    """Return what is found in a text as it stands in the editor."""
    forget_settings()
    return _findings_in(_path_of(document), document.source, site)


def _findings_in(path: str, text: str, site: Site | None) -> list[LintFinding]:
    """Return what is found in a text; nothing in a text that is not a script."""
    try:
        settings = settings_for(path, LintTable())
        found = lint_source(source_of(path, text), site)
    except MusterError:
        return []
    return [finding for finding in map(settings.judged, found) if finding is not None]


def _path_of(document: TextDocument) -> str:
    return str(document.path or Path.cwd() / "untitled")


def _diagnostic(document: TextDocument, finding: LintFinding) -> types.Diagnostic:
    from lsprotocol import types

    severity = {
        Severity.BREAKS: types.DiagnosticSeverity.Error,
        Severity.HANGS: types.DiagnosticSeverity.Error,
        Severity.STYLE: types.DiagnosticSeverity.Information,
    }.get(finding.severity, types.DiagnosticSeverity.Warning)
    address = address_of(finding.source)
    return types.Diagnostic(
        range=_range(document, finding.place),
        message=f"{finding.severity}: {finding.message}\n{finding.why}\n{finding.instead}",
        severity=severity,
        code=finding.rule,
        code_description=types.CodeDescription(href=address) if address else None,
        source="muster",
    )


def _range(document: TextDocument, place: TextSpan) -> types.Range:
    """Return a place as the editor counts: from 0, in its own units."""
    from lsprotocol import types

    lines = document.lines
    points = [(place.line, place.column), (place.end_line, place.end_column)]
    start, end = (types.Position(line - 1, max(0, column - 1)) for line, column in points)
    codec = document.position_codec
    return types.Range(_in_units(codec, lines, start), _in_units(codec, lines, end))


def _in_units(codec: Any, lines: Sequence[str], position: types.Position) -> types.Position:
    return codec.position_to_client_units(lines, position) if position.line < len(lines) else position


def _actions(
    document: TextDocument, params: types.CodeActionParams, findings: Sequence[LintFinding], site: Site | None
) -> list[types.CodeAction]:
    """Return a repair for each finding at the place that has one, and one for all."""
    from lsprotocol import types

    def look(text: str) -> list[LintFinding]:
        return _findings_in(_path_of(document), text, site)

    actions: list[types.CodeAction] = []
    wanted = params.context.only or [types.CodeActionKind.QuickFix, types.CodeActionKind.SourceFixAll]
    lines = range(params.range.start.line + 1, params.range.end.line + 2)
    repairable = [finding for finding in findings if finding.edits]
    if types.CodeActionKind.QuickFix in wanted:
        at_hand = [finding for finding in repairable if finding.place.line in lines]
        certain = [each for each in at_hand if is_certain(document.source, findings, [each], look)]
        actions += [_one(document, each) for each in certain]
    if types.CodeActionKind.SourceFixAll in wanted and repairable:
        text, repaired = settled_text(document.source, look)
        actions += [_whole(document, text)] if repaired else []
    return actions


def _one(document: TextDocument, finding: LintFinding) -> types.CodeAction:
    from lsprotocol import types

    edits = [types.TextEdit(_range(document, edit.place), edit.text) for edit in finding.edits]
    return types.CodeAction(
        title=f"Repair {finding.rule}",
        kind=types.CodeActionKind.QuickFix,
        diagnostics=[_diagnostic(document, finding)],
        edit=types.WorkspaceEdit(changes={document.uri: edits}),
        is_preferred=True,
    )


def _whole(document: TextDocument, text: str) -> types.CodeAction:
    from lsprotocol import types

    end = types.Position(len(document.lines), 0)
    edit = types.TextEdit(types.Range(types.Position(0, 0), end), text)
    return types.CodeAction(
        title="Repair all that is certain (muster)",
        kind=types.CodeActionKind.SourceFixAll,
        edit=types.WorkspaceEdit(changes={document.uri: [edit]}),
    )
