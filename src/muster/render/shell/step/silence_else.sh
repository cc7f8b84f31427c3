# A job that has not read the watch for hangs is not watched.
muster_watch_silence() { :; }
muster_end_watch() { :; }
