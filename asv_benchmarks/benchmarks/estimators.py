"""Estimators: fits and the search of C on scikit-learn's digits, features by name, the import."""

import warnings

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
        bank = pb.datasets.make_treebank(2000, random_state=0)
        self.X = [[{"word": f"w{word}", "tag": f"t{tag}", "bias": 1.0} for word, tag in x.tolist()] for x in bank.X]
        self.y = [[f"t{tag}" for _, tag in x.tolist()] for x in bank.X]
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
