"""What may be a secret, and how it is kept out of every text: the script, the plan as it is shown, argument lists.

A value that is passed on by its name alone was never shown by the user, and Muster does not show it either.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from muster.model.plan import Plan, Variable
from muster.model.words import Hidden, Template, template

PASSED = "MUSTER_PASSED_"
"""`run` brings a hidden value in the environment under this and its name: no client of Slurm's reads it there."""

_SECRET_ENDINGS = (
    *("TOKEN", "KEY", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "PASS", "PWD", "PW"),
    *("CREDENTIAL", "CREDENTIALS", "JWT", "PAT", "AUTH", "COOKIE"),
)
_NO_SECRET = frozenset({"PWD", "OLDPWD"})
_ADDRESS_WITH_PASSWORD = r"://[^/\s:@]*:[^/\s@]+@"  # noqa: S105  # a pattern
# Shorter ones stand in other texts by chance.
TOLD_BY_LENGTH = 6


def is_secret(name: str, value: str = "") -> bool:
    """Return whether a variable looks like one that nobody else may read.

    A word of its name, a password in an address.
    """
    by_name = name not in _NO_SECRET and any(word.endswith(_SECRET_ENDINGS) for word in name.upper().split("_"))
    return by_name or ("@" in value and bool(re.search(_ADDRESS_WITH_PASSWORD, value)))


def _typed_secret(assignment: str) -> bool:
    """Return whether the value of KEY=VALUE must be hidden; {job_id} in it is filled in by the job."""
    name, equals, value = assignment.partition("=")
    return bool(equals) and is_secret(name, value) and not isinstance(template(value), Template)


def shown_assignment(assignment: str) -> str:
    """Return KEY=VALUE as it may be shown."""
    return f"{assignment.partition('=')[0]}=…" if _typed_secret(assignment) else assignment


def without(typed_words: Iterable[str], assignments: Iterable[str]) -> tuple[str, ...]:
    """Return the words that were typed, without the values of secrets among `assignments`."""
    secrets = [assignment for assignment in assignments if _typed_secret(assignment)]
    return tuple(_masked(word, secrets) for word in typed_words)


def _masked(word: str, secrets: Sequence[str]) -> str:
    for assignment in secrets:
        if word == assignment or (word.startswith("--env=") and word.endswith(assignment)):
            return word.removesuffix(assignment) + shown_assignment(assignment)
    return word


def hide(variable: Variable) -> Variable:
    """Return the variable, its value hidden if it looks like a secret."""
    value = variable.value
    if type(value) is not str or not is_secret(variable.name, value):
        return variable
    return Variable(variable.name, Hidden(value), variable.reason)


def hidden_values(plan: Plan) -> dict[str, str]:
    """Return the hidden values of a plan by name: for the act, which hands them to the job."""
    return {variable.name: variable.value.text for variable in plan.variables if isinstance(variable.value, Hidden)}


def hidden_names(plan: Plan) -> tuple[str, ...]:
    """Return the variables whose values stand in no text."""
    return tuple(hidden_values(plan))


def without_values(text: str, values: Iterable[str]) -> str:
    """Return a text (a difference of files, a message) without these values.

    Short ones stand in other words by chance.
    """
    for value in values:
        if len(value) >= TOLD_BY_LENGTH:
            text = text.replace(value, "…")
    return text


def variables_to_hand_over(plan: Plan) -> dict[str, str]:
    """Return the variables by which a script that starts now is given the hidden values."""
    return {f"{PASSED}{name}": value for name, value in hidden_values(plan).items()}


def passed_by_name(words: Sequence[str]) -> tuple[list[str], Mapping[str, str]]:
    """Return options for a process of Muster's own, secrets by name alone, and the variables that it then needs."""
    kept_words: list[str] = []
    values: dict[str, str] = {}
    is_value = False
    for number, word in enumerate(words):
        if word == "--":
            return [*kept_words, *words[number:]], values
        assignment = word.removeprefix("--job-option=").removeprefix("--env=")
        if (is_value or assignment != word) and _typed_secret(assignment):
            name, _, value = assignment.partition("=")
            values[name] = value
            kept_words.append(word.removesuffix(assignment) + name)
        else:
            kept_words.append(word)
        is_value = word == "--env"
    return kept_words, values
