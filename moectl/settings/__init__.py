"""Everything anyone said, as said, with file and line: run files, presets, options."""
