/* Vectorised loops over rows for the elimination of words and its reverse pass. */
#ifndef PYBUNDLE_MATRIX_TREE_H
#define PYBUNDLE_MATRIX_TREE_H

#include "_simd.h"

/* y += a x */
PB_INLINE void pb_axpy_body(int n, double a, const double *PB_RESTRICT x, double *PB_RESTRICT y)
{
    for (int k = 0; k < n; k++)
        y[k] += a * x[k];
}
PB_CLONES(void, , pb_axpy, (int n, double a, const double *x, double *y), (n, a, x, y))

/* y += a row; returns row . x */
PB_INLINE double pb_dot_axpy_body(int n, double a, const double *PB_RESTRICT row, const double *PB_RESTRICT x,
                                  double *PB_RESTRICT y)
{
    double sum = 0.0;
    for (int k = 0; k < n; k++) {
        sum += row[k] * x[k];
        y[k] += a * row[k];
    }
    return sum;
}
PB_CLONES(double, return, pb_dot_axpy,
          (int n, double a, const double *row, const double *x, double *y),
          (n, a, row, x, y))

#endif
