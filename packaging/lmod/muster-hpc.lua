-- Muster for everybody on this cluster, as a module of Lmod.
-- Lay it out as /opt/muster/@VERSION@/{bin,etc,share/man} (docs/guides/administrator.md) and this file as
-- MODULEPATH/muster-hpc/@VERSION@.lua; another place than /opt/muster stands in the next line only.
local root = "/opt/muster/@VERSION@"

help([[Muster @VERSION@: one unchanged PyTorch script, distributed, on any Slurm cluster.
`muster` says what can be typed here; `muster docs first-job` is the tutorial.]])
whatis("Name: muster-hpc")
whatis("Version: @VERSION@")
whatis("Description: one unchanged PyTorch script, distributed, on any Slurm cluster")
whatis("License: Apache-2.0")

conflict("muster-hpc")
prepend_path("PATH", pathJoin(root, "bin"))
-- `man` finds the pages in share/man, beside this bin.
-- The site's settings and profiles for this version: config.toml, site.toml, sites/*.toml, as in /etc/muster.
setenv("MUSTER_SYSTEM_DIRECTORY", pathJoin(root, "etc"))
-- Muster reads settings of root and of the user; whoever installed these, a user who loads this module trusts them.
append_path("MUSTER_SAFE_DIRECTORY", pathJoin(root, "etc"))
append_path("MUSTER_SAFE_DIRECTORY", pathJoin(root, "etc/sites"))
