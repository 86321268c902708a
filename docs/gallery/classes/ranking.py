"""
Rankings: the rows of a query in order
======================================

Results of queries have grades, and only those of one query are compared. Each query has
an offset of its own, which a ranker never sees: it cancels in every pair. The data are
made by this script.
"""

# sphinx_gallery_thumbnail_number = 2
import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import Ridge

import pybundle as pb

rng = np.random.default_rng(0)
qid = np.repeat(np.arange(200), 20)
X = rng.standard_normal((4000, 20))
quality = X[:, 0] + 0.5 * X[:, 1] + 0.5 * rng.standard_normal(4000)
X[:, 2] += 3.0 * rng.standard_normal(200)[qid]
y = np.clip(np.round(quality + 2.0 * rng.standard_normal(200)[qid]), 0, 4)
train, test = qid < 100, qid >= 100

# %%
# C is chosen by cross-validation over whole queries, with one path for each fold.
search = pb.RankingSVMCV(np.logspace(-5.0, -1.0, 5), cv=5, metric="ndcg@5")
search.fit(X[train], y[train], qid=qid[train])
print(
    f"{search.n_pairs_} pairs in {search.n_groups_} queries, "
    f"{search.n_idle_groups_} of one grade only; gap {search.gap_:.1e}"
)
pb.plotting.PathDisplay.from_estimator(search)

# %%
# Held-out queries, and a regression on the grades. It orders fewer pairs, as the offsets
# disturb it, but the first five rows of a query are as good: compare before you choose.
ridge = Ridge().fit(X[train], y[train])
for name, model in (("ranking", search), ("ridge regression", ridge)):
    scores = model.predict(X[test])
    print(
        f"{name}: NDCG@5 {pb.metrics.ndcg(y[test], scores, qid[test], k=5):.3f}, "
        f"ordered pairs {pb.metrics.concordance(y[test], scores, qid[test]):.3f}"
    )

# %%
# Grades of three held-out queries, in the order that the ranker predicts.
figure, axes = plt.subplots(1, 3, figsize=(7.0, 2.8), sharey=True, layout="constrained")
for query, axis in enumerate(axes, start=101):
    rows = np.flatnonzero(qid == query)
    order = np.argsort(-search.predict(X[rows]))
    axis.bar(np.arange(1, 21), y[rows][order], color="tab:blue")
    axis.set(title=f"query {query}", xlabel="predicted rank")
axes[0].set_ylabel("grade")
