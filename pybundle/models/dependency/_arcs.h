/* Scores and sums of the hashed features of all arcs that leave one head; column m of a row is the arc to m. */
#ifndef PYBUNDLE_ARCS_H
#define PYBUNDLE_ARCS_H

#include <stdint.h>

#include "_simd.h"

/* row[m] += sum over t of scale[t] w[base[t] ^ word[t][m] ^ pair[t][m]]: templates in fours, so that loads overlap */
PB_INLINE void pb_gather_rows_body(int n, int n_templates, const double *PB_RESTRICT w, const double *scale,
                                   const int32_t *base, const int32_t *const *word, const int32_t *const *pair,
                                   double *PB_RESTRICT row)
{
    int t = 0;
    for (; t + 4 <= n_templates; t += 4) {
        const int32_t a = base[t], b = base[t + 1], c = base[t + 2], d = base[t + 3];
        const double x = scale[t], y = scale[t + 1], z = scale[t + 2], u = scale[t + 3];
        const int32_t *wa = word[t], *wb = word[t + 1], *wc = word[t + 2], *wd = word[t + 3];
        const int32_t *pa = pair[t], *pb = pair[t + 1], *pc = pair[t + 2], *pd = pair[t + 3];
        for (int m = 0; m < n; m++)
            row[m] += (x * w[a ^ wa[m] ^ pa[m]] + y * w[b ^ wb[m] ^ pb[m]])
                      + (z * w[c ^ wc[m] ^ pc[m]] + u * w[d ^ wd[m] ^ pd[m]]);
    }
    for (; t < n_templates; t++) {
        const int32_t a = base[t], *wa = word[t], *pa = pair[t];
        for (int m = 0; m < n; m++)
            row[m] += scale[t] * w[a ^ wa[m] ^ pa[m]];
    }
}
PB_CLONES(void, , pb_gather_rows,
          (int n, int n_templates, const double *w, const double *scale, const int32_t *base,
           const int32_t *const *word, const int32_t *const *pair, double *row),
          (n, n_templates, w, scale, base, word, pair, row))

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

/* Number of the lowest bit that is set, of bits != 0 */
PB_INLINE int pb_lowest(uint64_t bits)
{
#if defined(__GNUC__)
    return __builtin_ctzll(bits);
#else
    int k = 0;
    for (; !(bits & 1); bits >>= 1)
        k++;
    return k;
#endif
}

/* row[m] += scale times the sum over the bits k of set[m] of w[base ^ word[m] ^ pair[m] ^ kind[k]] */
static void pb_gather_each(int n, const double *PB_RESTRICT w, double scale, int32_t base, const int32_t *word,
                           const int32_t *pair, const uint64_t *set, const int32_t *kind, double *PB_RESTRICT row)
{
    for (int m = 0; m < n; m++) {
        const int32_t key = base ^ word[m] ^ pair[m];
        double total = 0.0;
        for (uint64_t bits = set[m]; bits; bits &= bits - 1)
            total += w[key ^ kind[pb_lowest(bits)]];
        row[m] += scale * total;
    }
}

/* slope[the same] += row[m] */
static void pb_scatter_each(int n, double *PB_RESTRICT slope, int32_t base, const int32_t *word, const int32_t *pair,
                            const uint64_t *set, const int32_t *kind, const double *PB_RESTRICT row)
{
    for (int m = 0; m < n; m++) {
        const int32_t key = base ^ word[m] ^ pair[m];
        for (uint64_t bits = set[m]; bits; bits &= bits - 1)
            slope[key ^ kind[pb_lowest(bits)]] += row[m];
    }
}

#endif
