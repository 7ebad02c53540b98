"""Rules: pure functions over the job that return findings, by subject."""
