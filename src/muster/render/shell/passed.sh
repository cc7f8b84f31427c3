# Values that are passed on by name stand in no script: `muster run` brings them in its environment, `muster submit` in
# a file that its owner alone can read and that goes as soon as it has been read; else they are this job's own.
muster_pass() {
    local name entry place file missing=()
    # shellcheck disable=SC2154  # of the script
    file=$muster_run_dir/passed
    if [ ! -f "$file" ] && [ -n "${SLURM_JOB_ID:-}" ] && ! compgen -v MUSTER_PASSED_ >/dev/null; then
        place=$(scontrol show job "$SLURM_JOB_ID" 2>/dev/null | sed -n 's/^ *Command=\(.*\)\/job\.sh$/\1/p' | head -n 1)
        file=$place${SLURM_ARRAY_TASK_ID:+/task-$SLURM_ARRAY_TASK_ID}/passed
    fi
    muster_passed=$file
    if [ -O "$file" ]; then
        while IFS= read -r -d '' entry; do export "MUSTER_PASSED_$entry"; done <"$file"
        [ -n "${muster_may_run_again:-}" ] || rm -f "$file"
    fi
    for name in "$@"; do
        entry=MUSTER_PASSED_$name
        if [ -n "${!entry+set}" ]; then
            export "$name=${!entry}"
            unset "$entry"
        elif [ -z "${!name+set}" ]; then
            missing+=("$name")
        fi
    done
    [ "${#missing[@]}" -eq 0 ] || printf 'muster: warning: %s\n\nhint: %s\n' \
        "this job was not given ${missing[*]}, which it passes on to its ranks: they start without" \
        'muster submit hands it over; by hand, from a shell that has it: sbatch --export=ALL FILE' >&2
}

# After the last run nobody needs the file any more. A run that Slurm ends may be one that it puts back into the queue.
muster_passed_on() {
    [ -n "${muster_interrupted:-}" ] || rm -f "$muster_passed"
}
