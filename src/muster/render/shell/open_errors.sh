# Where the ranks' errors go. A socket, or another user's pipe, cannot be opened by its name: srun's words and the
# ranks' errors then share one stream.
muster_open_errors() {
    muster_error=(--error=/dev/fd/9 --open-mode=append)
    { : >>/dev/fd/9; } 9>&2 2>/dev/null || muster_error=()
}
