# Uses the staged copies instead of the shared files: first it replaces their paths in the command, then it enters the
# mount namespace that the helper of this node holds.
if [ -n "${MUSTER_STAGE:-}" ]; then
    if [ -d "$MUSTER_STAGE/ranks" ]; then
        : >"$MUSTER_STAGE/ranks/$$"
    else
        read -r muster_here </proc/sys/kernel/hostname
        printf 'muster: warning: no copy is staged on %s: its ranks use the shared files\n' "$muster_here" >&2
        unset MUSTER_STAGE_SCRIPT MUSTER_STAGE_IMAGE MUSTER_STAGE_ENV MUSTER_STAGE_LIBRARY MUSTER_STAGE_BINDS
    fi
    muster_rest=$#
    while [ "$muster_rest" -gt 0 ]; do
        muster_word=$1
        shift
        [ -z "${MUSTER_STAGE_SCRIPT:-}" ] || [ "$muster_word" != "$MUSTER_STAGE_SCRIPT" ] ||
            muster_word=$MUSTER_STAGE_SCRIPT_HERE
        [ -z "${MUSTER_STAGE_IMAGE:-}" ] || [ "$muster_word" != "$MUSTER_STAGE_IMAGE" ] ||
            muster_word=$MUSTER_STAGE_IMAGE_HERE
        if [ -n "${MUSTER_STAGE_ENV:-}" ]; then
            case $muster_word in
            "$MUSTER_STAGE_ENV"/*) muster_word=$MUSTER_STAGE_ENV_HERE${muster_word#"$MUSTER_STAGE_ENV"} ;;
            esac
        fi
        set -- "$@" "$muster_word"
        muster_rest=$((muster_rest - 1))
    done
    if [ -n "${MUSTER_STAGE_ENV:-}" ]; then
        export PATH="$MUSTER_STAGE_ENV_HERE/bin:$PATH"
        [ -z "${VIRTUAL_ENV:-}" ] || export VIRTUAL_ENV="$MUSTER_STAGE_ENV_HERE"
        [ -z "${CONDA_PREFIX:-}" ] || export CONDA_PREFIX="$MUSTER_STAGE_ENV_HERE"
    fi
    if [ -n "${MUSTER_STAGE_LIBRARY:-}" ]; then
        case ${PYTHONPATH:-} in
        *"$MUSTER_STAGE_LIBRARY") export PYTHONPATH="${PYTHONPATH%"$MUSTER_STAGE_LIBRARY"}$MUSTER_STAGE/library" ;;
        esac
    fi
    if [ -n "${MUSTER_STAGE_BINDS:-}" ]; then
        muster_name=${MUSTER_STAGE_BINDS%% *}
        eval "export $muster_name=\"\${$muster_name:+\$$muster_name,}\${MUSTER_STAGE_BINDS#* }\""
    fi
    if [ -r "$MUSTER_STAGE/holder" ]; then
        read -r muster_holder muster_nsenter muster_user <"$MUSTER_STAGE/holder"
        # shellcheck disable=SC2016,SC2086  # the inner shell expands it; for root the word is empty
        set -- "$muster_nsenter" --target="$muster_holder" --mount $muster_user --preserve-credentials \
            /bin/sh -c 'cd "$0" && exec "$@"' "$PWD" "$@"
    fi
fi
