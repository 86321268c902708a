/* One instruction set: the template for every pair of storage and score type, then the table of kernels.
 * Needs PB_ISA, PB_BYTES, PB_TILE and PB_TARGET; undefines them. */

#define PB_X float
#define PB_S float
#define PB_PAIR f32f32
#include "_kernels_dense.h"
#define PB_X uint8_t
#define PB_S float
#define PB_PAIR u8f32
#ifdef PB_LOAD_U8F32
#define PB_LOAD PB_LOAD_U8F32
#endif
#include "_kernels_dense.h"
#define PB_X float
#define PB_S double
#define PB_PAIR f32f64
#ifdef PB_LOAD_F32F64
#define PB_LOAD PB_LOAD_F32F64
#endif
#define PB_SUMS
#include "_kernels_dense.h"
#define PB_X uint8_t
#define PB_S double
#define PB_PAIR u8f64
#ifdef PB_LOAD_U8F64
#define PB_LOAD PB_LOAD_U8F64
#endif
#define PB_SUMS
#include "_kernels_dense.h"
#define PB_X double
#define PB_S double
#define PB_PAIR f64f64
#define PB_SUMS
#include "_kernels_dense.h"

#define PB_X float
#define PB_S float
#define PB_PAIR csr32f32
#define PB_PASSES
#include "_kernels_csr.h"
#define PB_X float
#define PB_S double
#define PB_PAIR csr32f64
#define PB_PASSES
#define PB_SUMS
#include "_kernels_csr.h"
#define PB_X double
#define PB_S double
#define PB_PAIR csr64f64
#define PB_PASSES
#define PB_SUMS
#include "_kernels_csr.h"
#define PB_X double
#define PB_S float
#define PB_PAIR csr64f32
#include "_kernels_csr.h"

#define PB_NAME(name, pair) PB_CAT(name, pair, PB_ISA)

static const pb_kernels PB_CAT(pb, kernels, PB_ISA) = {
    PB_BYTES == 64 ? "avx512" : PB_BYTES == 32 ? "avx2" : "baseline",
    PB_VECTORS ? PB_BYTES / 4 : 1,
    { PB_NAME(score, f32f32), NULL, PB_NAME(score, u8f32), PB_NAME(score, csr32f32), NULL },
    { PB_NAME(score, f32f64), PB_NAME(score, f64f64), PB_NAME(score, u8f64), PB_NAME(score, csr32f64),
      PB_NAME(score, csr64f64) },
    { PB_NAME(accumulate, f32f64), PB_NAME(accumulate, f64f64), PB_NAME(accumulate, u8f64),
      PB_NAME(accumulate, csr32f64), PB_NAME(accumulate, csr64f64) },
    PB_NAME(top2, f32f32), PB_NAME(top2, f64f64),
    { PB_NAME(dots, f32f32), NULL, PB_NAME(dots, u8f32), NULL, NULL },
    { PB_NAME(dots, f32f64), PB_NAME(dots, f64f64), PB_NAME(dots, u8f64), NULL, NULL },
    { PB_NAME(score, f32f32), NULL, PB_NAME(score, u8f32), PB_NAME(step, csr32f32), PB_NAME(step, csr64f32) },
    { PB_NAME(score, f32f64), PB_NAME(score, f64f64), PB_NAME(score, u8f64), PB_NAME(step, csr32f64),
      PB_NAME(step, csr64f64) },
    { PB_NAME(update, f32f32), NULL, PB_NAME(update, u8f32), PB_NAME(update, csr32f32), PB_NAME(update, csr64f32) },
    { PB_NAME(update, f32f64), PB_NAME(update, f64f64), PB_NAME(update, u8f64), PB_NAME(update, csr32f64),
      PB_NAME(update, csr64f64) },
};

#undef PB_NAME
#undef PB_ISA
#undef PB_BYTES
#undef PB_TILE
#undef PB_TARGET
#undef PB_LOAD_U8F32
#undef PB_LOAD_U8F64
#undef PB_LOAD_F32F64
