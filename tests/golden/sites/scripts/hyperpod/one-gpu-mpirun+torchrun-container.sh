# refused: pyxis is a part of srun, but under mpirun+torchrun there is no srun
# hint: --launcher srun, or --engine apptainer
