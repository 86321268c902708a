/* Inner products of a few rows with many rows; the many are read once and not copied.
 *
 * BLAS first copies both factors into blocks of its own. If one has few rows, this costs as much as the products.
 * With AVX-512, a tile of 4 x 4 sums stays in registers here. Without AVX-512, BLAS is as fast, and is used. */
#ifndef PYBUNDLE_INNER_H
#define PYBUNDLE_INNER_H

#include <string.h>

#include "_simd.h"

#if PB_HAS_CLONES

typedef double pb_eight __attribute__((vector_size(64), aligned(8), may_alias));

enum {
    PB_TILE = 4,
    PB_STRIP = 2048,        /* columns that are processed at a time, so that the few rows fit into the cache */
    PB_MANY = 48,           /* with more rows than this, BLAS is faster */
};

/* c[i][j] += a[i] . b[j] over n columns, for i < m; the compiler knows m, because callers pass a constant */
PB_TARGET_AVX512 PB_INLINE void pb_tile(int m, int n, const double *const *a, const double *const *b, double (*c)[PB_TILE])
{
    pb_eight sum[PB_TILE][PB_TILE];
    int k = 0;
    memset(sum, 0, sizeof sum);
    for (; k + 8 <= n; k += 8) {
        pb_eight x[PB_TILE];
        for (int i = 0; i < m; i++)
            x[i] = *(const pb_eight *)(a[i] + k);
        for (int j = 0; j < PB_TILE; j++) {
            const pb_eight y = *(const pb_eight *)(b[j] + k);
            for (int i = 0; i < m; i++)
                sum[i][j] += x[i] * y;
        }
    }
    for (int i = 0; i < m; i++)
        for (int j = 0; j < PB_TILE; j++) {
            double rest = 0.0;
            for (int l = k; l < n; l++)
                rest += a[i][l] * b[j][l];
            for (int l = 0; l < 8; l++)
                rest += sum[i][j][l];
            c[i][j] += rest;
        }
}

PB_TARGET_AVX512 static void pb_inner_avx512(int m, int n, int d, const double *const *A, const double *const *B, double *C)
{
    memset(C, 0, sizeof(double) * m * n);
    for (int start = 0; start < d; start += PB_STRIP) {
        const int width = d - start < PB_STRIP ? d - start : PB_STRIP;
        for (int j = 0; j < n; j += PB_TILE)
            for (int i = 0; i < m; i += PB_TILE) {
                const int rows = m - i < PB_TILE ? m - i : PB_TILE, columns = n - j < PB_TILE ? n - j : PB_TILE;
                const double *a[PB_TILE], *b[PB_TILE];
                double c[PB_TILE][PB_TILE] = {{0.0}};
                for (int r = 0; r < PB_TILE; r++) {         /* past the end the last row repeats; its sums are unused */
                    a[r] = A[i + (r < rows ? r : rows - 1)] + start;
                    b[r] = B[j + (r < columns ? r : columns - 1)] + start;
                }
                if (rows == 1)
                    pb_tile(1, width, a, b, c);
                else if (rows == 2)
                    pb_tile(2, width, a, b, c);
                else
                    pb_tile(PB_TILE, width, a, b, c);
                for (int r = 0; r < rows; r++)
                    for (int s = 0; s < columns; s++)
                        C[(size_t)(i + r) * n + j + s] += c[r][s];
            }
    }
}
#endif

/* Returns whether this kernel is faster than BLAS for m rows on this machine. */
static int pb_has_inner(int m)
{
#if PB_HAS_CLONES
    return m >= 1 && m <= PB_MANY && pb_level == PB_AVX512;
#else
    (void)m;
    return 0;
#endif
}

/* C (m, n) = A B' for m rows A[i] and n rows B[j] of length d; `pb_has_inner(m)` must be true. The bits of a product do
 * not depend on m, n or other rows, nor on which of its two rows is in A. */
static void pb_inner(int m, int n, int d, const double *const *A, const double *const *B, double *C)
{
#if PB_HAS_CLONES
    pb_inner_avx512(m, n, d, A, B, C);
#else
    (void)m, (void)n, (void)d, (void)A, (void)B, (void)C;
#endif
}

#endif
