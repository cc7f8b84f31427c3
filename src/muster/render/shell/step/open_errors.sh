# Decides where the ranks' errors go. A socket, or a pipe of another user, cannot be opened by its name. Then srun's
# messages and the ranks' errors share one stream.
muster_open_errors() {
    muster_error=(--error=/dev/fd/9 --open-mode=append)
    { : >>/dev/fd/9; } 9>&2 2>/dev/null || muster_error=()
}
