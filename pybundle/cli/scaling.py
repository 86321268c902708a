"""Scale columns by their standard deviations, and convert weights back to the unscaled columns."""

import scipy.sparse as sp


def scaled(data):
    """Return the data with every column divided by its standard deviation, less its mean if dense, and the scaler.

    Sparse columns keep their zeros. The scaler is scikit-learn's `StandardScaler`: constant columns are divided by 1.
    """
    from sklearn.preprocessing import StandardScaler  # a slow import, which is seldom needed

    scaler = StandardScaler(with_mean=not sp.issparse(data.X))
    return data._replace(X=scaler.fit_transform(data.X)), scaler


def unscale(svm, scaler):
    """Convert the weights of a linear classifier to the unscaled columns: the same scores without a scaler.

        <w, (x - mean) / s> + b = <w / s, x> + (b - <w / s, mean>)

    The certificate still refers to the scaled columns; the weights now refer to the columns of the file.
    """
    svm.coef_ = svm.coef_ / scaler.scale_
    if scaler.with_mean:
        svm.intercept_ = svm.intercept_ - svm.coef_ @ scaler.mean_
