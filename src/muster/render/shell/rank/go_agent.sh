exec "$@"
