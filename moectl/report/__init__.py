"""What runs did, in numbers that name their lines and formulas, and in pictures."""
