"""Images: a real Apptainer on real lab hosts, and what is said before anybody waits."""
