"""moectl: MaxText configs, launch scripts and checks for MoE training on NVIDIA GPUs."""
