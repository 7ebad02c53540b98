"""What starts real programs, or reads their packages, to renew or prove facts."""
