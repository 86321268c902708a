"""Estimators on scikit-learn's digits: fits, the search of C, reading features by name, the import."""

import pybundle as pb
from pybundle.estimators.tokens import encode, learn_vocabulary

GRID = [1e-3, 1e-2, 1e-1, 1.0]


class Search:
    """A grid of C by one path for each of three folds."""

    def setup(self):
        self.data = pb.datasets.load_digits()

    def search(self):
        return pb.MulticlassSVMCV(GRID, cv=3).fit(self.data.X, self.data.y)

    def time_search(self):
        self.search()

    def track_largest_gap(self):
        return float(self.search().gaps_.max())


class Names:
    """Features of 20000 tokens by name."""

    def setup(self):
        bank = pb.datasets.make_treebank(2000, random_state=0)
        self.X = [[{"word": f"w{word}", "tag": f"t{tag}", "bias": 1.0} for word, tag in x.tolist()] for x in bank.X]
        self.names = learn_vocabulary(self.X)

    def time_learn(self):
        learn_vocabulary(self.X)

    def time_encode(self):
        encode(self.X, self.names)


def timeraw_import():
    return "import pybundle"
