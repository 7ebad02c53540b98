"""What a run will take, by arithmetic: nothing here is measured on this machine."""
