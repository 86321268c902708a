"""Estimators: fits and the search of C on scikit-learn's digits, features by name, the import."""

import warnings

import numpy as np

import pybundle as pb

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
    """Features of 2000 sentences by name: learning them (with one iteration), and reading them to predict."""

    def setup(self):
        rng = np.random.default_rng(0)
        words = [rng.integers(0, 200, 1 + rng.poisson(11)).tolist() for _ in range(2000)]
        self.X = [[{"word": f"w{word}", "tag": f"t{word % 8}", "bias": 1.0} for word in x] for x in words]
        self.y = [[f"t{word % 8}" for word in x] for x in words]
        self.svm = self.fit()

    def fit(self):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", pb.ConvergenceWarning)
            return pb.ChainSVM(max_iter=1).fit(self.X, self.y)

    def time_learn(self):
        self.fit()

    def time_predict(self):
        self.svm.predict(self.X)


def timeraw_import():
    return "import pybundle"
