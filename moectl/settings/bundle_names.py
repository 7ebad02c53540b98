"""Names of the files of a bundle."""

CONFIG = "config.yml"
LAUNCH = "launch.sbatch"
LOCK = "moectl.lock.yaml"
