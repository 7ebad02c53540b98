"""The tests' own judge: real MaxText, asked about configurations, meshes and train states."""
