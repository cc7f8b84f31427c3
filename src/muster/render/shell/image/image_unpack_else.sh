# A job that has not read how an image is unpacked leaves that to its engine.
muster_image_opens() { :; }
