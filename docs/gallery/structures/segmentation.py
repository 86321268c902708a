"""
Segmentation: splitting a line of digits
=========================================

Each image is a line of digits with different widths and gaps between them. The
boundaries are not given. The model finds boundaries and labels together, with one
template for every digit and width.
"""

from typing import Any

import numpy as np

import pybundle as pb

WIDTHS = (6, 7, 8)


def glued_digits(
    n: int, random_state: int, held_out: bool = False
) -> tuple[list[Any], list[Any]]:
    """Images (columns, 8) column by column; (label, first column) of every segment.

    Digits are stretched to one of the widths. "-" is the label of a column of gap.
    """
    strings = pb.datasets.digit_strings(
        n, lengths=(2, 6), held_out=held_out, random_state=random_state
    )
    rng = np.random.default_rng(random_state)
    X, y = [], []
    for images, digits in zip(strings.X, strings.y, strict=True):
        columns: list[Any] = []
        segments: list[Any] = []
        for image, digit in zip(images, digits, strict=True):
            for _ in range(rng.integers(3)):
                segments.append(("-", len(columns)))
                columns.append(np.zeros(8))
            segments.append((str(digit), len(columns)))
            places = np.linspace(0.0, 7.0, rng.choice(WIDTHS))
            left = np.minimum(places.astype(int), 6)
            share = (places - left)[:, None]
            drawn = image.reshape(8, 8).T
            columns.extend((1.0 - share) * drawn[left] + share * drawn[left + 1])
        X.append(np.array(columns))
        y.append(segments)
    return X, y


X_train, y_train = glued_digits(400, random_state=0)
X, y = glued_digits(100, random_state=1, held_out=True)
svm = pb.SegmentationSVM(C=0.03, fillers=["-"], tol=1e-2).fit(X_train, y_train)
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
