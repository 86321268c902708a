/* Two points that started equal, and their sum. */
#ifndef PYBUNDLE_JOIN_H
#define PYBUNDLE_JOIN_H

#include <stddef.h>
#include "_simd.h"

/* x += (a - x) + (b - x); gives |a|^2 - |x|^2, |b|^2 - |x|^2 and <a - x, b - x> of x before, summed in double from
 * differences: squares would cancel */
#define PB_JOIN(REAL)                                                                                            \
    PB_CLONES static void pb_join_##REAL(ptrdiff_t n, REAL *PB_RESTRICT x, const REAL *PB_RESTRICT a,             \
                                         const REAL *PB_RESTRICT b, double *PB_RESTRICT out)                      \
    {                                                                                                             \
        double first = 0, second = 0, both = 0;                                                                   \
        for (ptrdiff_t k = 0; k < n; k++) {                                                                       \
            const REAL u = a[k] - x[k], v = b[k] - x[k];                                                          \
            first += (double)u * (a[k] + x[k]);                                                                   \
            second += (double)v * (b[k] + x[k]);                                                                  \
            both += (double)u * v;                                                                                \
            x[k] += u + v;                                                                                        \
        }                                                                                                         \
        out[0] = first;                                                                                           \
        out[1] = second;                                                                                          \
        out[2] = both;                                                                                            \
    }
PB_JOIN(float)
PB_JOIN(double)

#endif
