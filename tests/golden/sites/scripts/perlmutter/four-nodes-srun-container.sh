# refused: an image of a registry does not run at perlmutter, as far as we know; it has shifter, podman-hpc
# hint: give another form of the image; --engine apptainer or singularity or pyxis or cscs, where the nodes have that after all
