"""Block methods: passes over single examples, steps on their blocks, and the storage of blocks."""
