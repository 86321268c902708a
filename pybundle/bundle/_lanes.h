/* Two points that started equal, and their sum. */
#ifndef PYBUNDLE_LANES_H
#define PYBUNDLE_LANES_H

#include <stddef.h>
#include "_simd.h"

/* x += (a - x) + (b - x); gives |a|^2 - |x|^2, |b|^2 - |x|^2 and <a - x, b - x> of x before, from differences: squares
 * would cancel */
PB_CLONES static void pb_join(ptrdiff_t n, double *PB_RESTRICT x, const double *PB_RESTRICT a,
                              const double *PB_RESTRICT b, double *PB_RESTRICT out)
{
    double first = 0.0, second = 0.0, both = 0.0;
    for (ptrdiff_t k = 0; k < n; k++) {
        const double u = a[k] - x[k], v = b[k] - x[k];
        first += u * (a[k] + x[k]);
        second += v * (b[k] + x[k]);
        both += u * v;
        x[k] += u + v;
    }
    out[0] = first;
    out[1] = second;
    out[2] = both;
}

#endif
