# Sequential minimal optimisation on a small dense simplex QP whose variables are sorted by part.

# Minimises 1/2 scale x'Qx - f'x in place, keeping g = scale Q x - f, until the duality gap is at most `tol`
# or `max_steps` steps are made; returns the steps made.
#   Q (n, n) leading dimension ldq; g, x (n,);
#   start (n_parts + 1,): part p is start[p]..start[p + 1], the sign-constrained block start[n_parts]..n;
#   rest (n_parts,): weight of the zero plane of each part; has_slack (n_parts,)
#   gap: the duality gap when it returns
cdef Py_ssize_t smo(int n, const double* Q, int ldq, double scale, double* g, double* x, int n_parts,
                    const int* start, double* rest, const unsigned char* has_slack, double tol,
                    Py_ssize_t max_steps, double* gap) noexcept nogil
