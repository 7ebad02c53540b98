"""Job to bundle: pure functions from a frozen job to the bytes of each file."""
