/* Run-time choice of instruction set.
 *
 * PB_CLONES in front of a function compiles it for the baseline CPU, for AVX2 with FMA (x86-64-v3) and for
 * AVX-512 (x86-64-v4); the loader picks one. Other compilers and CPUs get the plain function. Define
 * PYBUNDLE_NO_CLONES for sanitizer builds: resolvers run before ThreadSanitizer has started. */
#ifndef PYBUNDLE_SIMD_H
#define PYBUNDLE_SIMD_H

#if defined(__x86_64__) && defined(__linux__) && defined(__GNUC__) && !defined(__clang__) \
    && __GNUC__ >= 11 && !defined(PYBUNDLE_NO_CLONES)
#define PB_CLONES __attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
#define PB_HAS_CLONES 1
#else
#define PB_CLONES
#define PB_HAS_CLONES 0
#endif

#if defined(__GNUC__)
#define PB_INLINE static inline __attribute__((always_inline))
#define PB_RESTRICT __restrict__
#else
#define PB_INLINE static inline
#define PB_RESTRICT
#endif

#endif
