/* Rows of features in five storages, and the kernels over blocks of them that `_kernels.h` compiles. */
#ifndef PYBUNDLE_FEATURES_MATRIX_H
#define PYBUNDLE_FEATURES_MATRIX_H

#include <stddef.h>
#include <stdint.h>

/* Rows of examples in one of five storages; row i is data + i * d, or indptr[i] .. indptr[i + 1]. */
typedef struct {
    const void *data;
    const int32_t *indices;
    const int64_t *indptr;
    ptrdiff_t d;
} pb_matrix;

enum { PB_FLOAT32, PB_FLOAT64, PB_UINT8, PB_CSR32, PB_CSR64, PB_STORAGES };
enum { PB_BLOCK = 64 }; /* rows of a block; leading dimension of its transposed scores */
enum { PB_STEP = 4 };   /* rows that a sequential method scores together: the tile of the score kernels */

/* S[k * PB_BLOCK + r] = <W_k, x_{rows[r]}>, r < n; `ahead` more row numbers follow, the next block:
 * it is fetched meanwhile. */
typedef void (*pb_score_fn)(const pb_matrix *X, const ptrdiff_t *rows, int n, int ahead, const void *W,
                            ptrdiff_t ldw, int K, void *S);
/* a += sum_e coef[e] * x_{rows[e]} */
typedef void (*pb_accumulate_fn)(const pb_matrix *X, const ptrdiff_t *rows, const double *coef, int n, double *a);
/* largest and second largest score of every row of a block; the first index wins a tie; `best` has room for
 * two blocks */
typedef void (*pb_top2_fn)(const void *S, int K, void *best, void *second, int32_t *label);

/* out[q] = <X_row, X_rows[q]>, q < n < PB_STEP, of dense rows, in the type of the weights */
typedef void (*pb_dots_fn)(const pb_matrix *X, ptrdiff_t row, const ptrdiff_t *rows, int n, void *out);
/* W_k += sum_e coef[e * ldc + k] x_{rows[e]}, e < n <= PB_STEP: dense W (K, ldw), or W' (d, ldw) with K <= ldw for
 * CSR, where ldc >= ldw and coefficients behind K are 0 */
typedef void (*pb_update_fn)(const pb_matrix *X, const ptrdiff_t *rows, int n, const void *coef, int ldc, int K,
                             void *W, ptrdiff_t ldw);

typedef struct {
    const char *name;
    int lanes32;                              /* float32 lanes: enters the rounding bound */
    pb_score_fn score32[PB_STORAGES];         /* float32 scores (NULL: none) */
    pb_score_fn score64[PB_STORAGES];
    pb_accumulate_fn accumulate[PB_STORAGES];
    pb_top2_fn top2_32, top2_64;
    pb_dots_fn dots32[PB_STORAGES], dots64[PB_STORAGES];         /* NULL for CSR */
    pb_score_fn step32[PB_STORAGES], step64[PB_STORAGES];        /* scores in any order of the sums, to be followed by */
    pb_update_fn update32[PB_STORAGES], update64[PB_STORAGES];   /* float32: NULL for dense float64 */
} pb_kernels;

#endif
