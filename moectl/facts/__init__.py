"""Facts as data: keys, flags, variables, hardware and images, each with its source and release."""
