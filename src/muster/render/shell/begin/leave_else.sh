# Removes the space that a job keeps for the warning of a full disk: nobody warns.
muster_leave_run_directory() { rm -f "$muster_room"; }
