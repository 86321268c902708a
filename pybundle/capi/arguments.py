"""The arguments of `minimize` that follow from fields of `pb_settings`: penalty, linear constraints."""

import scipy.sparse as sp

from ..core.exceptions import ParameterError
from ..prox import L1, Ball, Box, SparseGroupLasso, SquaredL2


def penalty_of(lam, l1, groups, group_rates, lower, upper, radius):
    """Return the arguments of the penalty that is the sum of all terms given; None and 0 leave one out."""
    if (groups is None) != (group_rates is None):
        raise ParameterError("groups and group_rates of pb_settings must both be set, or neither of them")
    terms = []
    if groups is not None:
        terms.append(SparseGroupLasso(groups, l1, group_rates) if l1 else L1(group_rates, groups))
    elif l1:
        terms.append(L1(l1))
    if radius:
        terms.append(Ball(radius))
    if lower is not None or upper is not None:
        terms.append(Box(lower, upper))
    if not terms and lam is None:
        raise ParameterError("lam of pb_settings must be > 0 where none of lams, l1, groups, lower, upper and radius "
                             "is set, got 0")
    if not terms:
        return {"lam": lam}         # every method takes lam, but not all take penalties
    if lam is not None:
        terms.append(SquaredL2(lam))
    return {"penalty": sum(terms[1:], terms[0])}


def rows_of(values, columns, starts, dim, lower, upper):
    """Return linear constraints in CSR form as the argument `constraints`."""
    try:
        A = sp.csr_array((values, columns, starts), shape=(len(starts) - 1, dim))
    except ValueError as problem:
        raise ParameterError(f"row_starts and row_columns of pb_settings must form a CSR matrix: {problem}") from None
    return A, lower, upper
