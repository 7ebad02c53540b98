"""Names of the files of a bundle, and where a container sees it."""

CONFIG = "config.yml"
LAUNCH = "launch.sbatch"
LOCK = "moectl.lock.yaml"

# The file each launcher starts, and the plan beside the local one.
LOCAL = "launch.py"
LOCAL_PLAN = "launch.json"
MANIFEST = "jobset.yaml"
STARTED: dict[str, str] = {"slurm": LAUNCH, "local": LOCAL, "kubernetes": MANIFEST}

# The bundle's folder inside a container, and the folder MaxText is started in.
MOUNTED = "/moectl"

# Folders that a run makes in its bundle.
LEFT_BY_A_RUN = ("logs", "output")
