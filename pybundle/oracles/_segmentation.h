/* Vectorised maxima of contiguous scores; comparisons match the max instruction, and -inf is a value like others. */
#ifndef PYBUNDLE_SEGMENTATION_H
#define PYBUNDLE_SEGMENTATION_H

#include <math.h>
#include <stddef.h>
#include "_simd.h"

#define PB_LANES 16

/* max of x[0..n) */
PB_INLINE double pb_max_body(const double *PB_RESTRICT x, int n)
{
    double lane[PB_LANES], best;
    int i = 0, l;
    if (n < 2 * PB_LANES) {
        best = x[0];
        for (i = 1; i < n; i++) best = x[i] > best ? x[i] : best;
        return best;
    }
    for (l = 0; l < PB_LANES; l++) lane[l] = x[l];
    for (i = PB_LANES; i + PB_LANES <= n; i += PB_LANES)
        for (l = 0; l < PB_LANES; l++) lane[l] = x[i + l] > lane[l] ? x[i + l] : lane[l];
    for (l = 0, i = n - PB_LANES; l < PB_LANES; l++) lane[l] = x[i + l] > lane[l] ? x[i + l] : lane[l];
    best = lane[0];
    for (l = 1; l < PB_LANES; l++) best = lane[l] > best ? lane[l] : best;
    return best;
}
PB_CLONES(double, return, pb_max, (const double *x, int n), (x, n))

/* best[a] = max(best[a], from + row[a]); argument[a] = label where best[a] grew */
PB_INLINE void pb_extend_body(int n, double from, int label, const double *PB_RESTRICT row, double *PB_RESTRICT best,
                              int *PB_RESTRICT argument)
{
    int a;
    for (a = 0; a < n; a++) {
        double value = from + row[a];
        int grew = value > best[a];
        best[a] = grew ? value : best[a];
        argument[a] = grew ? label : argument[a];
    }
}
PB_CLONES(void, , pb_extend,
          (int n, double from, int label, const double *row, double *best, int *argument),
          (n, from, label, row, best, argument))

#endif
