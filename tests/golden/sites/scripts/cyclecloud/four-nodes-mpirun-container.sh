# refused: pyxis lives in srun, and under mpirun there is none
# hint: --launcher srun, or --engine apptainer
