"""What is there: facts of this host, an environment, an image, a cluster. Reads and asks; changes nothing."""
