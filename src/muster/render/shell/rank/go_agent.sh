muster_stay "$@"
