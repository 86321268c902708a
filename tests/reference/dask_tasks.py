"""What a scheduler of Dask still keeps."""

import time


def tasks_in_the_end(client, patience=120.0):
    """Number of its tasks once it is 0: what is released is forgotten a little later. The time only ends a failure."""
    deadline, n_left = time.monotonic() + patience, 1
    while n_left and time.monotonic() < deadline:
        n_left = client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks))
    return n_left
