# refused: pyxis is a part of srun, but under mpirun there is no srun
# hint: --launcher srun, or --engine apptainer
