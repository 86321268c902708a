/* Choice of the instruction set at run time on x86-64.
 *
 * PB_CLONES(result, return, name, (parameters), (arguments)) defines a function `name` from a PB_INLINE function
 * `name_body`, compiled three times: for the baseline, for AVX2 with FMA and for AVX-512. A call of `name` runs
 * the best version that the processor has. `return` is left empty if the result is void. The environment variable
 * PYBUNDLE_KERNELS = "baseline", "avx2" or "avx512" limits the choice; it is read when the module is loaded. The
 * attribute target_clones is not used, because it needs glibc and GCC, and its choice cannot be limited. */
#ifndef PYBUNDLE_SIMD_H
#define PYBUNDLE_SIMD_H

#if defined(__GNUC__)
#define PB_INLINE static inline __attribute__((always_inline))
#define PB_RESTRICT __restrict__
#else
#define PB_INLINE static inline
#define PB_RESTRICT
#endif

enum { PB_BASELINE, PB_AVX2, PB_AVX512 };

#if defined(__x86_64__) && defined(__GNUC__)
#include <stdlib.h>
#include <string.h>

#define PB_HAS_CLONES 1
#define PB_TARGET_AVX2 __attribute__((target("avx2,fma,bmi,bmi2,lzcnt,popcnt")))
#define PB_TARGET_AVX512 \
    __attribute__((target("avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx2,fma,bmi,bmi2,lzcnt,popcnt")))

static int pb_level;

__attribute__((constructor)) static void pb_choose_level(void)
{
    const char *wanted = getenv("PYBUNDLE_KERNELS");
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi")
        && __builtin_cpu_supports("bmi2"))
        pb_level = PB_AVX2;
    if (pb_level && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw")
        && __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq")
        && __builtin_cpu_supports("avx512vl"))
        pb_level = PB_AVX512;
    if (wanted && !strcmp(wanted, "baseline"))
        pb_level = PB_BASELINE;
    if (wanted && !strcmp(wanted, "avx2") && pb_level > PB_AVX2)
        pb_level = PB_AVX2;
}

#define PB_CLONES(RESULT, RETURN, NAME, PARAMETERS, ARGUMENTS)                                  \
    PB_TARGET_AVX2 static RESULT NAME##_avx2 PARAMETERS { RETURN NAME##_body ARGUMENTS; }       \
    PB_TARGET_AVX512 static RESULT NAME##_avx512 PARAMETERS { RETURN NAME##_body ARGUMENTS; }   \
    static RESULT NAME PARAMETERS                                                               \
    {                                                                                           \
        if (pb_level == PB_AVX512)                                                              \
            RETURN NAME##_avx512 ARGUMENTS;                                                     \
        else if (pb_level == PB_AVX2)                                                           \
            RETURN NAME##_avx2 ARGUMENTS;                                                       \
        else                                                                                    \
            RETURN NAME##_body ARGUMENTS;                                                       \
    }
#else
#define PB_HAS_CLONES 0
enum { pb_level = PB_BASELINE };
#define PB_CLONES(RESULT, RETURN, NAME, PARAMETERS, ARGUMENTS) \
    static RESULT NAME PARAMETERS { RETURN NAME##_body ARGUMENTS; }
#endif

#endif
