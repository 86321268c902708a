/* Kernels over blocks of rows, compiled for three instruction sets and chosen at import.
 *
 * A compiler that clones a function (PB_CLONES) keeps one source for all of them, but the register tile of a
 * score kernel wants 20 accumulators on AVX-512 and 12 on AVX2, so the template is included once for each
 * width. Compilers without vector extensions get one lane, i.e. plain C. */
#ifndef PYBUNDLE_FEATURES_KERNELS_H
#define PYBUNDLE_FEATURES_KERNELS_H

#include <math.h>
#include <string.h>
#include "_matrix.h"
#include "_simd.h"

#define PB_CAT2(a, b, c) a##_##b##_##c
#define PB_CAT(a, b, c) PB_CAT2(a, b, c)

#if defined(__GNUC__) && !defined(PYBUNDLE_NO_VECTORS)
#define PB_VECTORS 1
#define PB_PREFETCH(p) __builtin_prefetch((p), 0, 2) /* into the second cache: the first is full */
#else
#define PB_VECTORS 0
#define PB_PREFETCH(p) ((void)0)
#endif

#if PB_VECTORS && (PB_HAS_CLONES || (defined(__x86_64__) && defined(__clang__) && !defined(PYBUNDLE_NO_CLONES)))
#define PB_DISPATCH 1
#else
#define PB_DISPATCH 0
#endif

/* PB_LOAD_XY(p): a vector of Y from as many X. Given as intrinsics, for GCC 12 widens vectors by halves (twice as
 * slow) and bytes one by one (ten times). */
#if PB_DISPATCH
#include <immintrin.h>
#define PB_ISA v4
#define PB_LOAD_U8F32(p) _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(p))))
#define PB_LOAD_U8F64(p) _mm512_cvtepi32_pd(_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(p))))
#define PB_LOAD_F32F64(p) _mm512_cvtps_pd(_mm256_loadu_ps(p))
#define PB_BYTES 64
#define PB_TILE 5
#define PB_TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,bmi,bmi2")))
#include "_kernels_isa.h"
#define PB_ISA v3
#define PB_LOAD_U8F32(p) _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(p))))
#define PB_LOAD_U8F64(p) _mm256_cvtepi32_pd(_mm_cvtepu8_epi32(_mm_loadu_si32(p)))
#define PB_LOAD_F32F64(p) _mm256_cvtps_pd(_mm_loadu_ps(p))
#define PB_BYTES 32
#define PB_TILE 3
#define PB_TARGET __attribute__((target("avx2,fma,bmi,bmi2")))
#include "_kernels_isa.h"
#endif
#define PB_ISA base
#define PB_BYTES 16
#define PB_TILE 2
#define PB_TARGET
#include "_kernels_isa.h"

/* 0 the baseline, 1 AVX2 with FMA, 2 AVX-512; NULL where compiler or CPU has not got it */
static const pb_kernels *pb_kernels_at(int level)
{
#if PB_DISPATCH
    __builtin_cpu_init();
    if (level == 2)
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw")
            && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")
            && __builtin_cpu_supports("fma") ? &pb_kernels_v4 : NULL;
    if (level == 1)
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")
            && __builtin_cpu_supports("bmi2") ? &pb_kernels_v3 : NULL;
#endif
    return level == 0 ? &pb_kernels_base : NULL;
}

#endif
