"""The file in a run directory in which the watch of a job names a hang, as long as the hang lasts."""

HANG_REPORT = "hang"
