"""A run made fit for a small machine: what CPU devices cannot do, and a model made small."""
