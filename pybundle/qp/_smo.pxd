# Sequential minimal optimisation on a small dense simplex QP whose variables are sorted by part.

# Minimises 1/2 scale x'Qx - f'x in place, and updates g = scale Q x - f, until the duality gap is at most `tol` or
# `max_steps` steps were made; returns the number of steps.
#   Q (n, n) has the leading dimension ldq; g and x have shape (n,);
#   start (n_parts + 1,): variables start[p]..start[p + 1] - 1 are part p; variables from start[n_parts] on have no sum;
#   rest (n_parts,) are the weights of the zero planes; has_slack (n_parts,) tells which parts have a zero plane;
#   gap: receives the duality gap
cdef Py_ssize_t smo(int n, const double* Q, int ldq, double scale, double* g, double* x, int n_parts,
                    const int* start, double* rest, const unsigned char* has_slack, double tol,
                    Py_ssize_t max_steps, double* gap) noexcept nogil
