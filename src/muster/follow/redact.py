"""Texts without secrets, for a file that is shown to others. Pure.

What is replaced by "…", and why:

- a value that is known: that of a variable which was passed on by its name alone, or whose name looks like a secret;
- NAME=VALUE, "NAME": "VALUE", --name VALUE where the name looks like a secret (`plan/secret.py` has the rule);
- a password in an address (https://ada:…@host), what follows `Authorization:`, `Cookie:` or `Bearer`, a private key;
- 32 hexadecimal digits and more behind the word key, token, secret or password in one line;
- a word that begins as the tokens of well-known services do: their makers chose these beginnings to have them found.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from muster.plan.secret import TOLD_BY_LENGTH, is_secret

OMITTED = "…"
# "key: loss" stands in many logs, and is not a secret; "key=…" in an address often is.
_NOT_BEFORE_A_COLON = frozenset({"key", "pass", "pat", "auth"})

# A name and what stands between it and its value: NAME=, 'NAME=, "NAME": , --name , "--name", .
_HEAD = re.compile(
    r"""(?<![\w-])(?P<name>-{0,2}[A-Za-z_][\w-]{0,99})"""
    r"""(?P<between>\\?["']?[ \t]{0,20}[=:][ \t]{0,20}|(?<=\w)["']?,?(?:\s|\\\n){1,20})"""
)
_VALUE = re.compile(
    r"""\\"[^"\\\n]*\\"|[bru]?"(?:[^"\\\n]|\\.)*"|[bru]?'(?:[^'\\\n]|\\.)*'|[^\s"'&;,)}\]]+""", re.IGNORECASE
)
# A variable of a plan that is damaged, and so is not read as JSON.
_VARIABLE = re.compile(r"""("name"\s*:\s*"([^"\n]{1,100})"\s*,\s*"value"\s*:\s*)"(?:[^"\\\n]|\\.)*(?:"|\Z)""")
_IN_ADDRESS = re.compile(r"(://[^/\s:@\"']{0,200}):[^/\s@\"']{1,500}@")
_HEADER = re.compile(
    r"\b(Authorization[\"']?\s?[:=]\s?[\"']?(?:\w+ )?|Cookie[\"']?: ?|Bearer (?=\S{16}))([^\n\"']+)", re.IGNORECASE
)
_PRIVATE_KEY = re.compile(
    r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----.*?(?:-----END [A-Z ]{0,40}PRIVATE KEY-----|\Z)"
    # Of one that began before the part that is shown: its lines.
    r"|(?:^(?: *\d+: )?[A-Za-z0-9+/=]{16,100}[ \r]*\n){0,100}^[^\n]{0,40}-----END [A-Z ]{0,40}PRIVATE KEY-----",
    re.DOTALL | re.MULTILINE,
)
_TOKEN = re.compile(
    r"(?<![A-Za-z0-9])(?:"
    r"hf_[A-Za-z0-9]{16,}"  # Hugging Face
    r"|gh[opusr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}"  # GitHub, GitLab
    r"|sk-[A-Za-z0-9_-]{20,}|AIza[\w-]{30,}|nvapi-[\w-]{20,}"  # OpenAI and others, Google, NVIDIA
    r"|(?:AKIA|ASIA)[0-9A-Z]{16}|xox[abeprs]-[A-Za-z0-9-]{10,}"  # AWS, Slack
    r"|eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*"  # a JSON web token: Slurm's own are such
    r")"
)


# "wandb: Appending key for api.wandb.ai 0123…": the name is a word of a sentence. A commit has no such word before it.
_SAID = re.compile(
    r"(\b(?:api[ _-]?key|key|token|secret|password)\b[^\n]{0,60}?(?<![A-Za-z0-9]))[0-9a-f]{32,128}(?![A-Za-z0-9])",
    re.IGNORECASE,
)


class Redactor:
    """Replaces secrets, and counts how many it replaced."""

    def __init__(self, names: Iterable[str] = (), values: Iterable[str] = ()) -> None:
        """Keep what may not be shown: `names` are variables that were passed on by name alone.

        `values` stand in no text.
        """
        self._names = frozenset(names)
        secrets = sorted({value for value in values if len(value) >= TOLD_BY_LENGTH}, key=len, reverse=True)
        self._known = re.compile("|".join(map(re.escape, secrets)) or r"(?!)")
        self.count = 0

    def is_hidden(self, name: str, value: str = "") -> bool:
        """Return whether the value of a variable or an option must not be shown."""
        word = name.lstrip("-")
        return word in self._names or is_secret(word.replace("-", "_"), value)

    def text(self, text: str) -> str:
        """Return the text without secrets."""
        for pattern in (self._known, _PRIVATE_KEY, _TOKEN):
            text = pattern.sub(lambda _: self._omit(), text)
        text = _IN_ADDRESS.sub(lambda match: f"{match[1]}:{self._omit()}@", text)
        text = _HEADER.sub(lambda match: f"{match[1]}{self._omit()}", text)
        text = _SAID.sub(lambda match: f"{match[1]}{self._omit()}", text)
        text = _VARIABLE.sub(self._variable, text)
        return "".join(self._pairs(text))

    def json(self, text: str) -> str:
        """Return a JSON document without secrets; one that is damaged is read as text."""
        try:
            return json.dumps(self.value(json.loads(text)), indent=2, ensure_ascii=False) + "\n"
        except (ValueError, RecursionError):
            return self.text(text)

    def value(self, value: Any, name: str = "") -> Any:
        """Return a JSON value without secrets; `name` is the key that it stands under."""
        if isinstance(value, Mapping):
            return self._table(value)
        if isinstance(value, (list, tuple)):
            flags = ["", *(item if isinstance(item, str) and item.startswith("--") else "" for item in value[:-1])]
            return [self.value(item, flag) for flag, item in zip(flags, value)]
        if not isinstance(value, str):
            return value
        return (
            self._hidden(value)
            if name.lower() not in _NOT_BEFORE_A_COLON and self.is_hidden(name)
            else self.text(value)
        )

    def _table(self, table: Mapping[Any, Any]) -> dict[str, Any]:
        """Return an object; {"name": N, "value": V} is a variable."""
        variable = table.get("name")
        of_variable = variable if isinstance(variable, str) and self.is_hidden(variable) else ""
        return {
            self.text(str(key)): self.value(child, of_variable if key == "value" and of_variable else str(key))
            for key, child in table.items()
        }

    def _hidden(self, value: str) -> str:
        return self._omit() if value not in {"", OMITTED} else value

    def _variable(self, match: re.Match[str]) -> str:
        return f'{match[1]}"{self._omit()}"' if self.is_hidden(match[2]) else match[0]

    def _pairs(self, text: str) -> Iterator[str]:
        """Yield the text in pieces, a secret's value replaced. A name may stand in the value of another: --env=A=B."""
        position = 0
        while match := _HEAD.search(text, position):
            value = self._value_behind(match, text)
            yield text[position : match.end()]
            position = match.end()
            if value is not None and value[0] != OMITTED:
                yield self._omit()
                position = value.end()
        yield text[position:]

    def _value_behind(self, match: re.Match[str], text: str) -> re.Match[str] | None:
        """Return the value that belongs to a name and must not be shown; None where there is none."""
        name, between = match["name"], match["between"]
        sign = between.strip(" \t\r\n\\\"'")
        if not (sign in {"=", ":"} or name.startswith("--")) or not self.is_hidden(name):
            return None
        if sign == ":" and name.lower() in _NOT_BEFORE_A_COLON:
            return None
        quote = text[match.start() - 1 : match.start()]
        if between.strip(" \t") == "=" and quote in {"'", '"'}:  # 'NAME=two words'
            return re.compile(f"[^{quote}\\n]+").match(text, match.end())
        return _VALUE.match(text, match.end())

    def _omit(self) -> str:
        self.count += 1
        return OMITTED
