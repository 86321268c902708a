/* The entries of a dense block that are not zero. */
#ifndef PYBUNDLE_FEATURES_COMPRESS_H
#define PYBUNDLE_FEATURES_COMPRESS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "_simd.h"

enum { PB_COMPRESS_ROOM = 8 }; /* entries that may be written behind the last one */

static ptrdiff_t pb_compress_plain(ptrdiff_t n, int32_t first, const double *block, double *data, int32_t *indices)
{
    ptrdiff_t size = 0;
    for (ptrdiff_t j = 0; j < n; j++) {
        data[size] = block[j];
        indices[size] = first + (int32_t)j;
        size += block[j] != 0.0;
    }
    return size;
}

#if PB_HAS_CLONES
#include <immintrin.h>

/* Compressed in registers: stores of compressed vectors are slow on some CPUs. */
PB_TARGET_AVX512 static ptrdiff_t pb_compress_avx512(ptrdiff_t n, int32_t first, const double *block, double *data, int32_t *indices)
{
    const __m512d zero = _mm512_setzero_pd();
    const __m256i step = _mm256_set1_epi32(8);
    __m256i index = _mm256_add_epi32(_mm256_set1_epi32(first), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
    ptrdiff_t size = 0;
    for (ptrdiff_t j = 0; j < n; j += 8) {
        const __mmask8 there = n - j < 8 ? (__mmask8)((1 << (n - j)) - 1) : (__mmask8)0xFF;
        const __m512d value = _mm512_maskz_loadu_pd(there, block + j);
        const __mmask8 kept = _mm512_cmp_pd_mask(value, zero, _CMP_NEQ_UQ);
        _mm512_storeu_pd(data + size, _mm512_maskz_compress_pd(kept, value));
        _mm256_storeu_si256((__m256i *)(indices + size), _mm256_maskz_compress_epi32(kept, index));
        size += __builtin_popcount(kept);
        index = _mm256_add_epi32(index, step);
    }
    return size;
}
#endif

/* data, indices = the entries of block (n,) that are not 0, and first plus their places; returns how many they are.
 * There must be room for n + PB_COMPRESS_ROOM. */
static ptrdiff_t pb_compress(ptrdiff_t n, int32_t first, const double *block, double *data, int32_t *indices)
{
#if PB_HAS_CLONES
    if (pb_level == PB_AVX512)
        return pb_compress_avx512(n, first, block, data, indices);
#endif
    return pb_compress_plain(n, first, block, data, indices);
}

#endif
