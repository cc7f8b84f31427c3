# refused: pyxis lives in srun, but under mpirun+torchrun there is none
# hint: --launcher srun, or --engine apptainer
