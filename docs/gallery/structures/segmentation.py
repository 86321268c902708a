"""
Segmentation: splitting a line of digits
=========================================

Each image is a line of digits with different widths and gaps between them. The
boundaries are not given. The model finds boundaries and labels together, with one
template for every digit and width.
"""

import numpy as np

import pybundle as pb


def segments(data):
    """(label, first column) of every segment; the label of a gap is "-"."""
    found = []
    for labels in data.y:
        starts = np.cumsum([0, *data.widths[labels]])[:-1]
        found.append(
            [
                ("-" if symbol == 10 else str(symbol), int(start))
                for symbol, start in zip(
                    data.symbols[labels].tolist(), starts, strict=True
                )
            ]
        )
    return found


train = pb.datasets.glued_digits(400, widths=(6, 8), random_state=0)
test = pb.datasets.glued_digits(100, widths=(6, 8), held_out=True, random_state=1)
X, y = list(test.X), segments(test)
svm = pb.SegmentationSVM(C=0.03, fillers=["-"], tol=1e-2).fit(
    list(train.X), segments(train)
)
print(f"certified gap {svm.gap_:.1e} after {svm.n_passes_:.0f} passes")
print(
    f"{100 * svm.score(X, y):.1f} % of the held-out columns "
    f"have the right label and the right first column"
)

# %%
# Predicted segments are above the image, true ones below it. Orange segments have a
# wrong label or place.
long = int(np.argmax([len(x) for x in X]))
pb.plotting.SegmentationDisplay.from_estimator(svm, X[long], truth=y[long])

# %%
# The templates of width 7.
pb.plotting.WeightImagesDisplay.from_estimator(svm, width=7)
