# Reads texts from Muster's folder $1, which `muster submit` has written. A word FILE names functions of this script;
# VARIABLE=FILE a value; VARIABLE+=FILE what takes the place of the line "# muster_read FILE" in a value. Where this
# host cannot read one, or another user owns it, the job goes on without the rest, and a line says so.
muster_read() {
    local word file text held words=("${@:2}")
    for word in "${words[@]}"; do
        file=${word#*=}
        if ! { [ -O "$1/$file" ] && text=$(<"$1/$file") && [[ $text == *$'\n# end' ]]; } 2>/dev/null; then
            [ ! -e "$1/$file" ] || [ -O "$1/$file" ] || file+=", another user's file"
            printf 'muster: warning: %s cannot read %s: the job runs without %s\n\nhint: %s\n' \
                "$(uname -n)" "$1/$file" "${words[*]##*=}" \
                'muster submit writes it for the user who types it; XDG_DATA_HOME names a place that the nodes see' >&2
            return
        fi
        case $word in
        *+=*)
            # Not by %% or #: bash tries such a pattern at each letter of the text, 3 ms for 8 KB.
            word=${word%%+*} file="# muster_read $file"$'\n'
            held=${!word}$'\n' text=${held/"$file"/"$text"$'\n'}
            ;;&
        *=*) printf -v "${word%%=*}" %s "$text" ;;
        *) eval "$text" ;;
        esac
        words=("${words[@]:1}")
    done
}
