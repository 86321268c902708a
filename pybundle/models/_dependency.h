/* Scores and sums of the hashed features of all arcs that leave one head. */
#ifndef PYBUNDLE_DEPENDENCY_H
#define PYBUNDLE_DEPENDENCY_H

#include <stdint.h>

#include "_simd.h"

/* row[m] += sum over t of w[base[t] ^ word[t][m] ^ pair[t][m]]: templates in fours, so that loads overlap */
PB_CLONES static void pb_gather_rows(int n, int n_templates, const double *PB_RESTRICT w, const int32_t *base,
                                     const int32_t *const *word, const int32_t *const *pair, double *PB_RESTRICT row)
{
    int t = 0;
    for (; t + 4 <= n_templates; t += 4) {
        const int32_t a = base[t], b = base[t + 1], c = base[t + 2], d = base[t + 3];
        const int32_t *wa = word[t], *wb = word[t + 1], *wc = word[t + 2], *wd = word[t + 3];
        const int32_t *pa = pair[t], *pb = pair[t + 1], *pc = pair[t + 2], *pd = pair[t + 3];
        for (int m = 0; m < n; m++)
            row[m] += (w[a ^ wa[m] ^ pa[m]] + w[b ^ wb[m] ^ pb[m]]) + (w[c ^ wc[m] ^ pc[m]] + w[d ^ wd[m] ^ pd[m]]);
    }
    for (; t < n_templates; t++) {
        const int32_t a = base[t], *wa = word[t], *pa = pair[t];
        for (int m = 0; m < n; m++)
            row[m] += w[a ^ wa[m] ^ pa[m]];
    }
}

/* slope[base[t] ^ word[t][m] ^ pair[t][m]] += row[m] */
static void pb_scatter_rows(int n, int n_templates, double *PB_RESTRICT slope, const int32_t *base,
                            const int32_t *const *word, const int32_t *const *pair, const double *PB_RESTRICT row)
{
    for (int t = 0; t < n_templates; t++) {
        const int32_t a = base[t], *wa = word[t], *pa = pair[t];
        for (int m = 0; m < n; m++)
            slope[a ^ wa[m] ^ pa[m]] += row[m];
    }
}

#endif
