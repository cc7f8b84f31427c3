# refused: pyxis lives in srun, and under mpirun+torchrun there is none
# hint: --launcher srun, or --engine apptainer
