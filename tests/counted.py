"""Values that count what is read of them, where the cost of a prediction must not grow with them."""


class Counted(list):
    """A list that counts how many of its items are read."""

    n_read = 0

    def __iter__(self):
        for item in super().__iter__():
            self.n_read += 1
            yield item

    def __getitem__(self, k):
        self.n_read += 1
        return super().__getitem__(k)

    def __contains__(self, item):
        self.n_read += len(self)
        return super().__contains__(item)
