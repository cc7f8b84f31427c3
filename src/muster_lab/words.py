"""What help pages say of a lab. Imports nothing: a help page is shown in a few hundredths of a second."""

SLURM_VERSIONS = ("system", "24.11", "26.05")

PARTITION_GRAMMAR = """\
a partition is NAME or NAME:OPTION[,OPTION…]; options:
  default            jobs that name no partition go here (without any: the first one)
  nodes=N            the first N hosts (without: all)
  time=T             longest time limit, as Slurm writes it (30 is 30 minutes)
  default-time=T     time limit of jobs that ask for none
  max-nodes=N        most nodes of one job; min-nodes=N likewise
  accounts=A+B       only these accounts; qos=A+B only these qualities of service
  memory-per-cpu=M   memory of jobs that ask for none
  for example: --partition debug:nodes=2,time=30,default --partition long:time=2-00"""
