"""muster completion: what a shell reads so that TAB knows the verbs and their options."""

from __future__ import annotations

from collections.abc import Sequence

from muster.cli.verbs import VERBS
from muster.errors import UnknownName
from muster.job.request import options_of

_USAGE = """\
usage: muster completion bash|zsh

Print the completion of a shell:  source <(muster completion bash)
"""

# Both shells read this: zsh through its own bash compatibility.
_BASH = """\
_muster() {{
    local word=${{COMP_WORDS[COMP_CWORD]}} index
    if [ "$COMP_CWORD" -eq 1 ]; then
        mapfile -t COMPREPLY < <(compgen -W '{verbs}' -- "$word")
        return
    fi
    for ((index = 2; index < COMP_CWORD; index++)); do
        [ "${{COMP_WORDS[index]}}" != -- ] || return
    done
    case ${{COMP_WORDS[1]}} in
    {launching}) [[ $word != -* ]] || mapfile -t COMPREPLY < <(compgen -W '{options}' -- "$word") ;;
    esac
}}
complete -o default -F _muster muster
"""
_ZSH = "autoload -Uz bashcompinit && bashcompinit\n"


def main(words: Sequence[str]) -> int:
    """Print the completion of one shell."""
    if not words or words[0] in {"-h", "--help"}:
        print(_USAGE, end="")
        return 0 if words else 2
    if words[0] not in {"bash", "zsh"}:
        raise UnknownName("shell", words[0], ("bash", "zsh"))
    flags = sorted(flag for option in options_of().values() for flag in option.flags)
    launching = [verb.name for verb in VERBS if verb.name in {"run", "submit", "plan", "shell"}]
    text = _BASH.format(
        verbs=" ".join(verb.name for verb in VERBS), launching=" | ".join(launching), options=" ".join(flags)
    )
    print((_ZSH if words[0] == "zsh" else "") + text, end="")
    return 0
