"""Block methods, which step on the multipliers of one example after another, and their storage of blocks."""
