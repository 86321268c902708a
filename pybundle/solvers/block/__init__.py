"""Block methods: passes over single examples, their steps, and what they keep of each."""
