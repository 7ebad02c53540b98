"""Scripts as people have them, with nothing wrong in them."""

from __future__ import annotations

_TRAIN = "python3 -m maxtext.trainers.pre_train.train"

CLEAN: dict[str, str] = {
    "pyxis, one task a GPU": f"""#!/bin/bash
#SBATCH --job-name=moe-671b
#SBATCH --nodes=16
#SBATCH --ntasks-per-node=8
#SBATCH --gpus-per-node=8
#SBATCH --exclusive
#SBATCH --time=04:00:00
#SBATCH --output=logs/%x-%j.out
set -euo pipefail
export XLA_FLAGS="--xla_gpu_enable_latency_hiding_scheduler=true"
export NCCL_DEBUG=WARN
srun --export=ALL --kill-on-bad-exit=1 \\
  --container-image=ghcr.io#nvidia/jax:maxtext-2026-10-05 \\
  --container-mounts=/lustre/team:/lustre/team,./:/job:ro \\
  --container-env=XLA_FLAGS,NCCL_DEBUG \\
  --container-workdir=/job --no-container-mount-home \\
  {_TRAIN} /job/config.yml hardware=gpu_multiprocess run_name=a \\
  base_output_directory=/lustre/team/out
""",
    "one process a node, told by variables": f"""#!/bin/bash
#SBATCH -J dense-70b -N 4 --ntasks-per-node=1 --gpus-per-node=8 -c 96
#SBATCH --exclusive --mem=0 -t 1-12:00
export SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK
hosts=$(scontrol show hostnames "$SLURM_JOB_NODELIST")
export JAX_COORDINATOR_IP=$(echo "$hosts" | head -n 1)
export JAX_COORDINATOR_PORT=$((20000 + SLURM_JOB_ID % 10000))
export NNODES=$SLURM_NNODES
export CUDA_VISIBLE_DEVICES=0,1,2,3,4,5,6,7
srun bash -c 'NODE_RANK=$SLURM_PROCID exec {_TRAIN} base.yml hardware=gpu run_name=b \\
  base_output_directory=gs://bucket/out'
""",
    "GB200, typed gres and segments": """#!/bin/bash
#SBATCH --nodes=32
#SBATCH --ntasks-per-node=4
#SBATCH --gres=gpu:gb200:4
#SBATCH --segment=16
#SBATCH --partition=gb200 --account=proj_ml
#SBATCH --time=480
export JAX_PLATFORMS=cuda
srun --cpu-bind=cores --mpi=none /usr/bin/python3 -m maxtext.trainers.pre_train.train \\
  configs/run.yml hardware=gpu_multiprocess base_output_directory=/shared/runs
""",
    "a squashfs file and a shell in the container": f"""#!/usr/bin/env bash
#SBATCH --nodes=2 --ntasks-per-node=8 --gpus-per-node=8   # two HGX
#SBATCH --exclusive
IMAGE=/images/maxtext+26.10.sqsh
MOUNTS="$PWD:/workspace,/data:/data:ro"
srun --container-image="$IMAGE" --container-mounts="$MOUNTS" --container-env=XLA_FLAGS \\
  bash -lc "cd /workspace && {_TRAIN} run.yml hardware=gpu_multiprocess \\
  base_output_directory=/data/out"
""",
    "apptainer": f"""#!/bin/bash
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=4
#SBATCH --gres=gpu:4
#SBATCH --cpus-per-task=18
#SBATCH --time=12:00:00
module load apptainer
srun --cpus-per-task="$SLURM_CPUS_PER_TASK" \\
  apptainer exec --nv -B /scratch:/scratch maxtext.sif {_TRAIN} /scratch/a.yml \\
  hardware=gpu_multiprocess base_output_directory=/scratch/out
""",
    "a virtual environment on one node": f"""#!/bin/bash
#SBATCH --nodes=1
#SBATCH --ntasks=8
#SBATCH --gpus=8
#SBATCH --mail-type=END,FAIL
#SBATCH --mail-user=someone@example.org
source ~/venv/bin/activate
srun {_TRAIN} base.yml hardware=gpu_multiprocess run_name=c \\
  base_output_directory=/tmp/out enable_checkpointing=false
""",
    "salloc": f"""#!/bin/bash
# salloc -N 2 --gpus-per-node=8 ./run.sh
srun -N 2 --ntasks-per-node=8 --gpus-per-node=8 {_TRAIN} base.yml \\
  hardware=gpu_multiprocess run_name=d base_output_directory=/scratch/team/out
""",
    "one GPU on a workstation": f"""#!/bin/sh
CUDA_VISIBLE_DEVICES=0 {_TRAIN} base.yml hardware=gpu run_name=e steps=10 \\
  dataset_type=synthetic enable_checkpointing=false
""",
    "one node, one process, all its GPUs": f"""#!/bin/bash
#SBATCH -N1 -n1 --gpus-per-node=8 -t 30
{_TRAIN} base.yml hardware=gpu run_name=f base_output_directory=/tmp/out
""",
    "an array with a dependency": f"""#!/bin/bash
#SBATCH --array=0-3%1 --dependency=singleton --signal=B:TERM@120 --requeue
#SBATCH --nodes=8 --ntasks=64 --ntasks-per-node=8 --gpus-per-node=8 --exclusive
##SBATCH --reservation=old
#SBATCH --export=ALL,WANDB_MODE=offline
#SBATCH --exclude=gpu[001-003,017]
srun --output=logs/%j-%t.log --label --kill-on-bad-exit {_TRAIN} base.yml \\
  hardware=gpu_multiprocess run_name="r$SLURM_ARRAY_TASK_ID" base_output_directory=/nfs/out
""",
    "an image imported first": f"""#!/bin/bash
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=8
#SBATCH --gpus-per-node=8
SQSH=/shared/images/jax.sqsh
[ -f "$SQSH" ] || enroot import -o "$SQSH" docker://nvcr.io#nvidia/jax:26.03-maxtext-py3
srun --ntasks-per-node=1 --container-image="$SQSH" nvidia-smi -L
srun --container-image="$SQSH" --container-name=train --container-mounts=/shared:/shared \\
  {_TRAIN} /shared/run.yml hardware=gpu_multiprocess base_output_directory=/shared/out
""",
    "options from outside": f"""#!/bin/bash
#SBATCH --nodes=4 --ntasks-per-node=8 --gpus-per-node=8
srun $SRUN_OPTIONS {_TRAIN} "$CONFIG" hardware=gpu_multiprocess \\
  base_output_directory="$OUT" run_name=g
""",
    "several GPUs bound and named": f"""#!/bin/bash
#SBATCH --nodes=2 --ntasks-per-node=8 --gpus-per-task=1
export JAX_LOCAL_DEVICE_IDS=0
srun {_TRAIN} base.yml hardware=gpu_multiprocess run_name=h base_output_directory=/nfs/out
""",
    "a heterogeneous job": f"""#!/bin/bash
#SBATCH --nodes=1 --ntasks=1
#SBATCH hetjob
#SBATCH --nodes=2 --ntasks-per-node=8 --gpus-per-node=8
srun --het-group=1 {_TRAIN} base.yml hardware=gpu_multiprocess base_output_directory=/nfs/out
""",
    "docker on a node": f"""#!/bin/bash
docker run --rm --gpus all -e XLA_FLAGS -v /data:/data ghcr.io/nvidia/jax:maxtext-2026-10-05 \\
  {_TRAIN} base.yml hardware=gpu run_name=i base_output_directory=/data/out
""",
}
