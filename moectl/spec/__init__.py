"""The typed face of run files, cluster profiles and presets."""
