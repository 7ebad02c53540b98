"""Names of the files of a bundle, and where a container sees it."""

CONFIG = "config.yml"
LAUNCH = "launch.sbatch"
LOCK = "moectl.lock.yaml"

# The bundle's folder inside a container, and the folder MaxText is started in.
MOUNTED = "/moectl"

# Folders that a run makes in its bundle.
LEFT_BY_A_RUN = ("logs", "output")
