"""What every run needs: result, history, stopping rules, certificate, progress, executors."""
