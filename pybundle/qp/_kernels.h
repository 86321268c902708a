/* Loops over rows of H for which BLAS has no function. */
#ifndef PYBUNDLE_QP_KERNELS_H
#define PYBUNDLE_QP_KERNELS_H

#include "_simd.h"

/* y += sum_i weight[i] * row[i], four rows at a time: y is read and written a quarter as often as by axpy */
PB_INLINE void pb_add_rows_body(int m, int n_rows, const double *const *row, const double *weight, double *y)
{
    int i = 0;
    for (; i + 4 <= n_rows; i += 4) {
        const double *a = row[i], *b = row[i + 1], *c = row[i + 2], *d = row[i + 3];
        const double p = weight[i], q = weight[i + 1], r = weight[i + 2], s = weight[i + 3];
        for (int k = 0; k < m; k++)
            y[k] += (p * a[k] + q * b[k]) + (r * c[k] + s * d[k]);
    }
    for (; i < n_rows; i++) {
        const double *a = row[i];
        const double p = weight[i];
        for (int k = 0; k < m; k++)
            y[k] += p * a[k];
    }
}
PB_CLONES(void, , pb_add_rows,
          (int m, int n_rows, const double *const *row, const double *weight, double *y),
          (m, n_rows, row, weight, y))

/* g += step * (up - down); a row that is NULL counts as 0, because slacks have no row of H */
PB_INLINE void pb_shift_body(int n, double step, const double *up, const double *down, double *g)
{
    if (up && down)
        for (int k = 0; k < n; k++)
            g[k] += step * (up[k] - down[k]);
    else if (up)
        for (int k = 0; k < n; k++)
            g[k] += step * up[k];
    else if (down)
        for (int k = 0; k < n; k++)
            g[k] -= step * down[k];
}
PB_CLONES(void, , pb_shift,
          (int n, double step, const double *up, const double *down, double *g),
          (n, step, up, down, g))

/* out[k] = unit * row[index[k]], or 0 if index[k] < 0; plus coupling if part[k] = p */
#define PB_GATHER(real)                                                                                          \
    PB_INLINE void pb_gather_##real##_body(int n, const double *row, const int *index, const int *part, int p,   \
                                           double unit, double coupling, real *out)                              \
    {                                                                                                            \
        for (int k = 0; k < n; k++) {                                                                            \
            const double entry = row[index[k] < 0 ? 0 : index[k]];                                               \
            out[k] = (real)((index[k] < 0 ? 0.0 : unit * entry) + (part[k] == p ? coupling : 0.0));              \
        }                                                                                                        \
    }                                                                                                            \
    PB_CLONES(void, , pb_gather_##real,                                                                          \
              (int n, const double *row, const int *index, const int *part, int p, double unit, double coupling, \
               real *out),                                                                                       \
              (n, row, index, part, p, unit, coupling, out))
PB_GATHER(float)
PB_GATHER(double)

#endif
