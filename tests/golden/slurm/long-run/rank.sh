#!/bin/sh
# What every task of the job runs, on its node: one process, one GPU.
# srun of launch.sbatch starts it in the folder of the bundle, with the environment of the job.

# What a person said stands in single quotes, and is meant as it stands.
# shellcheck disable=SC2016
set -u

# The first task to fail leaves its exit code for the job; the shell's noclobber lets one win.
fail() {
  (set -C && printf '%s %s %s\n' "$1" "${SLURM_PROCID-?}" "${SLURMD_NODENAME-?}" \
    >"${MOECTL_LOGS-.}/first-failure") 2>/dev/null
}

stop() {
  printf 'moectl: rank %s: %s\n' "${SLURM_PROCID-?}" "$1" >&2
  fail 78
  exit 78
}

if [ -z "${SLURM_PROCID-}" ] || [ -z "${SLURM_LOCALID-}" ] || [ -z "${MOECTL_LOGS-}" ]; then
  stop 'launch.sbatch starts this script, through srun'
fi

# The slice is told from the rank, so the rank must be where the plan put it.
planned=$(sed -n "$((SLURM_PROCID / 8 + 1))s/ .*//p" "$MOECTL_LOGS/nodes" 2>/dev/null)
[ "${planned:-${SLURMD_NODENAME-}}" = "${SLURMD_NODENAME-}" ] ||
  stop "it runs on $SLURMD_NODENAME, but the plan has it on $planned"
[ "$SLURM_LOCALID" -eq $((SLURM_PROCID % 8)) ] ||
  stop "its local rank is $SLURM_LOCALID, but the plan has 8 consecutive ranks a node"

# Which ICI mesh this process belongs to. Without it XLA would take every host, or every NVLink
# clique, for a slice; all processes say it or none.
JAX_PARTITION_INDEX=$((SLURM_PROCID / 8))
export JAX_PARTITION_INDEX

# JAX takes the GPU of its local rank. Where the site shows a task one GPU only, that is number 0.
case ${CUDA_VISIBLE_DEVICES-} in
  '' | *,*) ;;
  *) export JAX_LOCAL_DEVICE_IDS=0 ;;
esac

# A log file is written as it comes, not in blocks of 8 KiB.
export PYTHONUNBUFFERED="${PYTHONUNBUFFERED-1}"

# Rank 0 notes down what runs, beside the run and not before it; it cannot fail the run.
recorder=
if [ "$SLURM_PROCID" -eq 0 ]; then
  python3 ./as_run.py --image '' \
    "$MOECTL_LOGS" >/dev/null 2>&1 </dev/null &
  recorder=$!
fi

# Signals reach every process of the task. This shell outlives them, so that MaxText can finish
# what it does on SIGTERM and its exit code is seen; the watchdog's SIGABRT has it write its
# stacks. The core file of a process that maps a GPU's memory would fill the disk.
trap : HUP INT TERM USR1 USR2 ABRT
# shellcheck disable=SC3045 # POSIX does not name the option; dash, bash and busybox have it
ulimit -S -c 0

python3 -m maxtext.trainers.pre_train.train config.yml
code=$?

[ "$code" -eq 0 ] || fail "$code"
[ -z "$recorder" ] || wait "$recorder"
exit "$code"
