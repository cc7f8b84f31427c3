# A job that has not read how an image is unpacked has unpacked none.
muster_remove_unpacked() { :; }
