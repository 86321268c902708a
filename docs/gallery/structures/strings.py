"""
Strings: neighbours help to recognise characters
=================================================

Single noisy images of digits are hard to recognise. Here they form strings in which
some pairs of digits are frequent. A chain learns both at once: the appearance of a
digit and the digits that follow it.
"""

import numpy as np

import pybundle as pb

train = pb.datasets.digit_strings(200, noise=0.45, random_state=0)
test = pb.datasets.digit_strings(200, noise=0.45, held_out=True, random_state=1)

alone = pb.MulticlassSVM(C=0.03, tol=1e-2).fit(train.X.values, train.y.values)
chain = pb.ChainSVM(C=0.03, tol=1e-2).fit(train.X, train.y)
print(f"one at a time: {100 * alone.score(test.X.values, test.y.values):.1f} % right")
print(f"as a chain:    {100 * chain.score(test.X, test.y):.1f} % right")

# %%
# The weights of pairs; frequent pairs are red. The strings were drawn from a known
# Markov chain, so the weights can be compared with the true probabilities.
pb.plotting.TransitionDisplay.from_estimator(chain)

# %%
frequent = np.log(train.transition + 1e-3)
print(
    f"correlation with the logarithm of the true probabilities: "
    f"{np.corrcoef(frequent.ravel(), chain.transition_coef_.ravel())[0, 1]:.2f}"
)

# %%
# The weights of pixels are templates of the digits, as without a chain:
pb.plotting.WeightImagesDisplay.from_estimator(chain, (8, 8))
