"""Result, history, stopping rules, certificate, progress, executors."""
