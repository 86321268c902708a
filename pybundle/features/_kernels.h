/* Kernels over blocks of rows, compiled for three instruction sets and chosen at import.
 *
 * PB_CLONES compiles one source for all of them, but the register tile of a score kernel needs 20 accumulators on
 * AVX-512 and 12 on AVX2, so the template is included once for each width. Compilers without vector extensions get
 * one lane, i.e. plain C. */
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
#define PB_OPAQUE(e) __asm__("" : "+r"(e)) /* keeps the compiler from vectorising a loop with gathers: slower */
#else
#define PB_VECTORS 0
#define PB_PREFETCH(p) ((void)0)
#define PB_OPAQUE(e) ((void)0)
#endif

#define PB_NEAR (1 << 18) /* bytes of W up to which it stays in the second cache by itself */

#define PB_DISPATCH (PB_VECTORS && PB_HAS_CLONES)

/* PB_LOAD_XY(p): a vector of Y from as many X. These are intrinsics, because GCC 12 widens vectors by halves (twice as
 * slow) and bytes one by one (ten times). */
#if PB_DISPATCH
#include <immintrin.h>

/* The first bytes of a register; _mm_loadu_si32 and _mm_loadu_si16 are missing in GCC 10. */
PB_INLINE __m128i pb_four_bytes(const uint8_t *p)
{
    int32_t bits;
    memcpy(&bits, p, sizeof bits);
    return _mm_cvtsi32_si128(bits);
}

PB_INLINE __m128i pb_two_bytes(const uint8_t *p)
{
    uint16_t bits;
    memcpy(&bits, p, sizeof bits);
    return _mm_cvtsi32_si128(bits);
}

/* Bytes to int32 with SSE2 */
PB_INLINE __m128i pb_widened(__m128i bytes)
{
    const __m128i zero = _mm_setzero_si128();
    return _mm_unpacklo_epi16(_mm_unpacklo_epi8(bytes, zero), zero);
}

#define PB_ISA v4
#define PB_LOAD_U8F32(p) _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(p))))
#define PB_LOAD_U8F64(p) _mm512_cvtepi32_pd(_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(p))))
#define PB_LOAD_F32F64(p) _mm512_cvtps_pd(_mm256_loadu_ps(p))
#define PB_BYTES 64
#define PB_TILE 5
#define PB_TARGET PB_TARGET_AVX512
#include "_kernels_isa.h"
#define PB_ISA v3
#define PB_LOAD_U8F32(p) _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(p))))
#define PB_LOAD_U8F64(p) _mm256_cvtepi32_pd(_mm_cvtepu8_epi32(pb_four_bytes(p)))
#define PB_LOAD_F32F64(p) _mm256_cvtps_pd(_mm_loadu_ps(p))
#define PB_BYTES 32
#define PB_TILE 3
#define PB_TARGET PB_TARGET_AVX2
#include "_kernels_isa.h"
#define PB_LOAD_U8F32(p) _mm_cvtepi32_ps(pb_widened(pb_four_bytes(p)))
#define PB_LOAD_U8F64(p) _mm_cvtepi32_pd(pb_widened(pb_two_bytes(p)))
#elif PB_VECTORS && defined(__aarch64__)
#include <arm_neon.h>

/* The first `n` bytes at p as numbers of 32 bits, the rest 0 */
PB_INLINE uint32x4_t pb_widened(const uint8_t *p, size_t n)
{
    uint32_t bits = 0;
    memcpy(&bits, p, n);
    return vmovl_u16(vget_low_u16(vmovl_u8(vreinterpret_u8_u32(vdup_n_u32(bits)))));
}

#define PB_LOAD_U8F32(p) vcvtq_f32_u32(pb_widened(p, 4))
#define PB_LOAD_U8F64(p) vcvtq_f64_u64(vmovl_u32(vget_low_u32(pb_widened(p, 2))))
#endif
#define PB_ISA base
#define PB_BYTES 16
#define PB_TILE 2
#define PB_TARGET
#include "_kernels_isa.h"

/* The kernels of a level; NULL if the processor or the compiler lacks them, or PYBUNDLE_KERNELS excludes them. */
static const pb_kernels *pb_kernels_at(int level)
{
#if PB_DISPATCH
    if (level == PB_AVX512)
        return pb_level >= level ? &pb_kernels_v4 : NULL;
    if (level == PB_AVX2)
        return pb_level >= level ? &pb_kernels_v3 : NULL;
#endif
    return level == PB_BASELINE ? &pb_kernels_base : NULL;
}

#endif
