"""A ladder of runs, each started only when the one below it passed its gate."""
