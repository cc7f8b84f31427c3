"""A rehearsal: the real job, end to end, on a lab like its site; and in words what that could show and what not."""
