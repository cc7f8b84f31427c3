#!/bin/bash
# Written by muster VERSION for the site 'jean-zay'. It runs with sbatch alone.
#   muster submit -A abc@h100 -N 4 -g 4 -t 00:30:00 --image /images/train.sif -- python train.py
#SBATCH --job-name=train --comment=muster:DIGEST
#SBATCH --nodes=4 --ntasks-per-node=4 --cpus-per-task=24 --gres=gpu:4 --hint=nomultithread
#SBATCH --account=abc@h100 --time=00:30:00 --qos=qos_gpu_h100-t3 --constraint=h100
#SBATCH --export=NONE --no-requeue
# shellcheck disable=SC2016,SC2034,SC2119,SC2154  # the user's words reach the ranks unchanged

job() {
    muster_begin dir=/home/ada/project tasks=4 cpus=24
    [ "$muster_nodes" -le 128 ] || muster_other_size 'the QOS qos_gpu_h100-t3 takes jobs of at most 128 nodes'
    # the rest of Muster's text
    muster_read /home/ada/.local/share/muster/texts/0 leave.sh report_ends.sh silence.sh watch.sh unpacked.sh \
        muster_task+=look.sh muster_task+=image_unpack.sh muster_task+=stack.sh muster_task+=left.sh
    unset PYTHONPATH PYTHONHOME LD_PRELOAD VIRTUAL_ENV "${!CONDA_@}"  # the host's: the image has its own
    export PYTHONNOUSERSITE=1  # packages in ~/.local are the host's
    export RES_OPTIONS='timeout:1 attempts:3'  # a silent name server costs little
    # The ranks compare these with what they find. AGENTS=0: Slurm itself starts them.
    muster_expect LAUNCHER=srun AGENTS=0 GPUS=4 CPUS="$muster_cpus_per_task" VISIBILITY=all GRACE=10 PORT_LOW=10000 \
        PORT_COUNT=20000 ENDS="$(muster_ends)"
    muster_choose_port  # a free one, where the ranks meet
    muster_watch_silence seconds=1800 python=/opt/muster/bin/python  # reports ranks that hang
    # --kill-on-bad-exit=0: this script ends all ranks when one fails; --mpi=none: the ranks need no PMI
    muster_step srun --nodes="$muster_nodes" --ntasks="$((muster_nodes * muster_ntasks_per_node))" \
        --ntasks-per-node="$muster_ntasks_per_node" --kill-on-bad-exit=0 --export=ALL --mpi=none \
        --cpus-per-task="$muster_cpus_per_task" --label "${muster_output_flags[@]}" --hint=nomultithread --input=0 \
        sh -c "$muster_task" muster apptainer --quiet exec --nv --bind /tmp --bind /home/ada --bind \
        /opt/venv/muster:/opt/muster-ranks/muster:ro --pwd /home/ada/project /images/train.sif python train.py
    muster_count_ends of=ranks  # a 0 is believed after counting
    muster_end_watch
    muster_remove_unpacked
    muster_finish
}

# ---------------------------------------------------------------------------------------------------------------------
# Below is Muster's own text (VERSION, sha256 DIGEST), explained in docs/explanation/script.md.
{ muster_common=$(</dev/stdin); } <<'MUSTER_TEXT'
#   stop, meeting
MUSTER_TEXT
# in the script:
#   words, begin, run_directory, leave_else, size_granted, go_to, read, other_size, expect, count_ends,
#   report_ends_else, silence_else, port, open_errors, watch_else, unpacked_else, muster_forget
{ muster_task=$muster_common$'\n'$(</dev/stdin); } <<'MUSTER_TEXT'
#   rank_slurm, directory, size_as_planned, gpus, cpus, threads, cpus_asked, publish, jax
# muster_read look.sh
#   image_node, image, image_unpack_else
# muster_read image_unpack.sh
#   gpu_kind, stack_else
# muster_read stack.sh
#   image_asks
muster_image_needs apptainer /images/train.sif
muster_image_opens apptainer APPTAINER /images/train.sif
muster_image_made_for apptainer /images/train.sif APPTAINER cuda
muster_image_sees /tmp /home/ada /opt/venv/muster
muster_image_takes APPTAINER /tmp /home/ada
muster_image_gets APPTAINERENV_ RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE GROUP_RANK GROUP_WORLD_SIZE NODE_RANK \
    ROLE_NAME ROLE_RANK ROLE_WORLD_SIZE MASTER_ADDR MASTER_PORT TORCHELASTIC_RUN_ID TORCHELASTIC_RESTART_COUNT \
    TORCHELASTIC_MAX_RESTARTS OMP_NUM_THREADS MUSTER_JOB MUSTER_RUN_DIR MUSTER_LAUNCHER MUSTER_AGENTS \
    MUSTER_LOCAL_NNODES MUSTER_PORT_LOW MUSTER_PORT_COUNT MUSTER_NODES MUSTER_WIREUP MUSTER_GRACE MUSTER_CPUS \
    MUSTER_OMP CUDA_VISIBLE_DEVICES ROCR_VISIBLE_DEVICES HIP_VISIBLE_DEVICES ZE_AFFINITY_MASK \
    TORCH_ELASTIC_SHUTDOWN_TIMEOUT TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE PYTHONNOUSERSITE RES_OPTIONS
muster_image_library APPTAINERENV_PYTHONPATH /opt/muster-ranks
eval 'eval "$muster_image_words"'
#   ends
# muster_read left.sh
#   stay, go_counted_rank
MUSTER_TEXT
