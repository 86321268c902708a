/* Vectorised loops over rows, for the maximum spanning arborescence. */
#ifndef PYBUNDLE_ARBORESCENCE_H
#define PYBUNDLE_ARBORESCENCE_H

#include <math.h>
#include <stdint.h>

#include "_simd.h"

/* Scores at or below this are forbidden, like -inf, so that differences of the other scores cannot overflow. Rows of
 * differences may hold smaller numbers; there only -inf forbids. */
#define PB_FORBIDDEN (-1e300)

/* Finds the best head of every word among the rows first..n - 1 of s (n, n): the smallest of tied heads, -1 if all are
 * forbidden. Returns nonzero if an entry is NaN or too large, even on the diagonal, which is not used otherwise. */
PB_INLINE int pb_best_heads_body(int n, int first, const double *PB_RESTRICT s, double *PB_RESTRICT value,
                                 int64_t *PB_RESTRICT head)
{
    int64_t bad = 0;
    for (int m = 0; m < n; m++) {
        value[m] = PB_FORBIDDEN;
        head[m] = -1;
    }
    for (int h = first; h < n; h++) {
        const double *PB_RESTRICT row = s + (int64_t)h * n;
        const double kept_value = value[h];
        const int64_t kept_head = head[h];
        for (int m = 1; m < n; m++) {
            const double x = row[m];
            const int64_t better = -(int64_t)(x > value[m]);
            bad |= !(x <= -PB_FORBIDDEN);
            value[m] = better ? x : value[m];
            head[m] = (head[m] & ~better) | (h & better);
        }
        value[h] = kept_value;
        head[h] = kept_head;
    }
    return bad != 0;
}
PB_CLONES(int, return, pb_best_heads,
          (int n, int first, const double *s, double *value, int64_t *head),
          (n, first, s, value, head))

/* row = max(row, other - shift) */
PB_INLINE void pb_raise_body(int n, const double *PB_RESTRICT other, double shift, double *PB_RESTRICT row)
{
    for (int u = 0; u < n; u++) {
        const double x = other[u] - shift;
        row[u] = x > row[u] ? x : row[u];
    }
}
PB_CLONES(void, , pb_raise, (int n, const double *other, double shift, double *row), (n, other, shift, row))

/* row = max(row, column k of s (n, n) - shift) */
static void pb_raise_column(int n, const double *PB_RESTRICT s, int k, double shift, double *PB_RESTRICT row)
{
    for (int u = 0; u < n; u++) {
        const double x = s[(int64_t)u * n + k];
        const double y = x > PB_FORBIDDEN ? x - shift : -INFINITY;
        row[u] = y > row[u] ? y : row[u];
    }
}

/* Returns the smallest index of the largest entry in first..n - 1, -1 if all are forbidden */
PB_INLINE int pb_best_body(int n, int first, const double *row, double *value)
{
    double lane[8];
    double best = -INFINITY;
    int u = first;
    for (int j = 0; j < 8; j++)
        lane[j] = -INFINITY;
    for (; u + 8 <= n; u += 8)          /* compilers do not vectorise a plain maximum, because of NaN */
        for (int j = 0; j < 8; j++)
            lane[j] = row[u + j] > lane[j] ? row[u + j] : lane[j];
    for (; u < n; u++)
        best = row[u] > best ? row[u] : best;
    for (int j = 0; j < 8; j++)
        best = lane[j] > best ? lane[j] : best;
    *value = best;
    if (!(best > -INFINITY))
        return -1;
    for (u = first; row[u] != best; u++)
        ;
    return u;
}
PB_CLONES(int, return, pb_best, (int n, int first, const double *row, double *value), (n, first, row, value))

#endif
