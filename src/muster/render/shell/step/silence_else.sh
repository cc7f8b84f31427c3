# A job that has not read the watch for hangs is not watched.
muster_watch_silence() { :; }
# Ends no watch.
muster_end_watch() { :; }
