"""Takes what people have, scripts, configs and manifests, into a run file."""
