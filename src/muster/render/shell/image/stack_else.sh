# A job that has not read the check of an image's torch checks nothing.
muster_stack_fits() { :; }
