"""An executor that Ctrl-C ends while its helpers have just begun."""

import threading


class Interrupted:
    """Raises KeyboardInterrupt beside the helpers that it has started; where it is `late`, after all work is done.

    Attributes
    ----------
    helpers : list of Thread
    """

    def __init__(self, late):
        self.late, self.helpers = late, []

    def map(self, function, items):
        if self.late:
            list(map(function, items))
        for _ in items:
            self.helpers.append(threading.Thread(target=function))
            self.helpers[-1].start()
        raise KeyboardInterrupt

    def join(self):
        for helper in self.helpers:
            helper.join()
