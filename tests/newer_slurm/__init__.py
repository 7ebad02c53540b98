"""Rendered bundles under a newer Slurm with topology/block: `python -m tests.newer_slurm`."""
