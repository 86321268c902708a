"""
Letters: neighbours help to read
================================

Noisy images of characters, hard to read one at a time; but they come in strings in which some follow others more often
than chance. A chain learns both at once, what a character looks like and what follows it.
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
# The weights of pairs. The strings were drawn from a Markov chain that is known here, so that they can be compared with
# the truth: what is frequent is red.
pb.plotting.TransitionDisplay.from_estimator(chain)

# %%
frequent = np.log(train.language.transition + 1e-3)
print(f"correlation with the logarithm of the true probabilities: "
      f"{np.corrcoef(frequent.ravel(), chain.transition_coef_.ravel())[0, 1]:.2f}")

# %%
# And those of pixels, which are templates as without a chain:
pb.plotting.WeightImagesDisplay.from_estimator(chain, (8, 8))
