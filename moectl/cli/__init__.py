"""The commands: options in, text out; what they do lives in `moectl.actions`."""
