"""Settings to Job: everything filled in, every value knowing its origin."""
