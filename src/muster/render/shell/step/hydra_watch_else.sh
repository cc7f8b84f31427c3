# A job that has not read the watch of MPICH's mpirun does not watch it.
muster_watch_hydra() { :; }
