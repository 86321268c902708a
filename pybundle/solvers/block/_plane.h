/* Slopes of single planes, which are sparse or dense, and float64, or float32 if that is exact.
 *
 * The sparse product is not vectorised: gather instructions, which a compiler would take there, are slower than
 * single loads on processors with the mitigations of 2023. */
#ifndef PYBUNDLE_PLANE_H
#define PYBUNDLE_PLANE_H

#include <stddef.h>
#include <stdint.h>
#include "_simd.h"
#if defined(__GLIBC__)
#include <malloc.h>
#endif

#if defined(__GNUC__) && !defined(__clang__)
#define PB_SCALAR __attribute__((optimize("no-tree-vectorize", "associative-math", "fp-contract=fast")))
#else
#define PB_SCALAR
#endif

PB_INLINE void pb_prefetch(const void *address) {
#if defined(__GNUC__)
    __builtin_prefetch(address);
#else
    (void)address;
#endif
}

/* Return unused pages inside the heap to the system. */
PB_INLINE void pb_return_pages(void) {
#if defined(__GLIBC__)
    malloc_trim(0);
#endif
}

#define PB_PLANE_FUNCTIONS(REAL)                                                                                      \
    PB_SCALAR static double pb_sparse_dot_##REAL(ptrdiff_t n, const int32_t *PB_RESTRICT index,                       \
                                                 const REAL *PB_RESTRICT value, const double *PB_RESTRICT w) {        \
        double a = 0.0, b = 0.0, c = 0.0, d = 0.0;                                                                    \
        ptrdiff_t k = 0;                                                                                              \
        for (; k + 4 <= n; k += 4) {                                                                                  \
            a += value[k] * w[index[k]];                                                                              \
            b += value[k + 1] * w[index[k + 1]];                                                                      \
            c += value[k + 2] * w[index[k + 2]];                                                                      \
            d += value[k + 3] * w[index[k + 3]];                                                                      \
        }                                                                                                             \
        for (; k < n; k++) a += value[k] * w[index[k]];                                                               \
        return (a + b) + (c + d);                                                                                     \
    }                                                                                                                 \
    PB_INLINE double pb_dense_dot_##REAL##_body(ptrdiff_t n, const REAL *PB_RESTRICT value,                           \
                                                const double *PB_RESTRICT w) {                                        \
        double sum = 0.0;                                                                                             \
        for (ptrdiff_t k = 0; k < n; k++) sum += value[k] * w[k];                                                     \
        return sum;                                                                                                   \
    }                                                                                                                 \
    PB_CLONES(double, return, pb_dense_dot_##REAL, (ptrdiff_t n, const REAL *value, const double *w), (n, value, w))  \
    static void pb_sparse_axpy_##REAL(ptrdiff_t n, double a, const int32_t *PB_RESTRICT index,                        \
                                      const REAL *PB_RESTRICT value, double *PB_RESTRICT w) {                         \
        for (ptrdiff_t k = 0; k < n; k++) w[index[k]] += a * value[k];                                                \
    }                                                                                                                 \
    PB_INLINE void pb_dense_axpy_##REAL##_body(ptrdiff_t n, double a, const REAL *PB_RESTRICT value,                  \
                                               double *PB_RESTRICT w) {                                               \
        for (ptrdiff_t k = 0; k < n; k++) w[k] += a * value[k];                                                       \
    }                                                                                                                 \
    PB_CLONES(void, , pb_dense_axpy_##REAL, (ptrdiff_t n, double a, const REAL *value, double *w), (n, a, value, w))

PB_PLANE_FUNCTIONS(float)
PB_PLANE_FUNCTIONS(double)

/* A slope of n entries; index is NULL if it is dense. */
typedef struct {
    ptrdiff_t n;
    const int32_t *index;
    const void *value;
    int is_single;
} pb_slope;

PB_INLINE double pb_slope_dot(const pb_slope *a, const double *w) {
    if (a->index == NULL)
        return a->is_single ? pb_dense_dot_float(a->n, (const float *)a->value, w)
                            : pb_dense_dot_double(a->n, (const double *)a->value, w);
    return a->is_single ? pb_sparse_dot_float(a->n, a->index, (const float *)a->value, w)
                        : pb_sparse_dot_double(a->n, a->index, (const double *)a->value, w);
}

PB_INLINE void pb_slope_axpy(const pb_slope *a, double factor, double *w) {
    if (a->index == NULL) {
        if (a->is_single) pb_dense_axpy_float(a->n, factor, (const float *)a->value, w);
        else pb_dense_axpy_double(a->n, factor, (const double *)a->value, w);
    } else {
        if (a->is_single) pb_sparse_axpy_float(a->n, factor, a->index, (const float *)a->value, w);
        else pb_sparse_axpy_double(a->n, factor, a->index, (const double *)a->value, w);
    }
}

PB_INLINE double pb_slope_value(const pb_slope *a, ptrdiff_t k) {
    return a->is_single ? ((const float *)a->value)[k] : ((const double *)a->value)[k];
}

#endif
