"""What each command does, without its options and its text: also the Python API."""
