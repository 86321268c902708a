"""Result, history, stopping rules, bounds, checkpoints, progress and executors, which every run needs."""
