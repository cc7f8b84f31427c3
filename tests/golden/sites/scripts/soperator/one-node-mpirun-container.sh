# refused: pyxis lives in srun, but under mpirun there is none
# hint: --launcher srun, or --engine apptainer
