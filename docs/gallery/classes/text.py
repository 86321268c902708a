"""
Texts: which words tell the classes apart
=========================================

The texts are docstrings of SciPy, the class is the module that each comes from. A
pipeline of tf-idf and a support vector machine recognises it, and the largest weights
show by which words.
"""

import inspect

import matplotlib.pyplot as plt
import scipy.linalg
import scipy.signal
import scipy.stats
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.model_selection import train_test_split

import pybundle as pb

texts, y = [], []
for module in (scipy.linalg, scipy.signal, scipy.stats):
    for name in module.__all__:
        text = inspect.getdoc(getattr(module, name))
        if text:
            texts.append(text)
            y.append(module.__name__)
texts, texts_test, y, y_test = train_test_split(texts, y, random_state=0)

tfidf = TfidfVectorizer(sublinear_tf=True, min_df=3, stop_words="english")
svm = pb.MulticlassSVM(C=1.0).fit(tfidf.fit_transform(texts), y)
print(
    f"{len(texts)} texts, {svm.n_features_in_} words; "
    f"{100 * svm.score(tfidf.transform(texts_test), y_test):.1f} % right; "
    f"certified gap {svm.gap_:.1e}"
)

# %%
# The five words with the largest weights for each module.
names = tfidf.get_feature_names_out()
figure, axes = plt.subplots(1, 3, figsize=(8.0, 3.2), layout="constrained")
for axis, label, colour in zip(axes, svm.classes_, ("C0", "C1", "C2"), strict=True):
    found = svm.top_features(label, 5)
    axis.barh([names[j] for j, _ in found], [w for _, w in found], color=colour)
    axis.invert_yaxis()
    axis.set_title(label)
    axis.tick_params(labelsize=13)
    axis.set_xticks([])
