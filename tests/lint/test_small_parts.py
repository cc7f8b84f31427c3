"""Small parts of the reader of scripts, at their edges."""

from __future__ import annotations

import pytest

from muster.errors import RequestError
from muster_lint.port.guards import is_guarded
from muster_lint.read import source_of
from muster_lint.values import TextSpan


def test_no_line_stands_before_the_first() -> None:
    assert not is_guarded(["cd x", "true &&"], TextSpan(1, 1, 1, 5))


def test_a_script_whose_first_line_names_no_program_is_refused() -> None:
    with pytest.raises(RequestError, match="is a strange script"):
        source_of("job", "#!/\necho\n")
