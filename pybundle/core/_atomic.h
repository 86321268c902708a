/* Numbers that two threads share without a lock, and how one waits for the other. */
#ifndef PYBUNDLE_ATOMIC_H
#define PYBUNDLE_ATOMIC_H

#include <stdint.h>
#include "_simd.h"
#if defined(_MSC_VER)
#include <intrin.h>
#define WIN32_LEAN_AND_MEAN
#define NOMINMAX
#include <windows.h>
#else
#include <sched.h>
#endif

/* What was written before a store is seen by who loads the value; all threads see these in one order. */
PB_INLINE int64_t pb_load(const int64_t *at) {
#if defined(_MSC_VER) && defined(_M_ARM64)
    return (int64_t)__ldar64((unsigned __int64 volatile *)at);
#elif defined(_MSC_VER)
    const int64_t value = *(const volatile int64_t *)at;
    _ReadWriteBarrier();
    return value;
#else
    return __atomic_load_n(at, __ATOMIC_SEQ_CST);
#endif
}

PB_INLINE void pb_store(int64_t *at, int64_t value) {
#if defined(_MSC_VER)
    _InterlockedExchange64(at, value);
#else
    __atomic_store_n(at, value, __ATOMIC_SEQ_CST);
#endif
}

/* Adds 1; the number before. */
PB_INLINE int64_t pb_count(int64_t *at) {
#if defined(_MSC_VER)
    return _InterlockedIncrement64(at) - 1;
#else
    return __atomic_fetch_add(at, 1, __ATOMIC_SEQ_CST);
#endif
}

enum { PB_PAUSES = 1000 };  /* turns, some 10 microseconds */

/* Waits a little, by turns number `turn`: first some ns, then until the system lets this thread go on. */
PB_INLINE void pb_wait(int64_t turn) {
    if (turn < PB_PAUSES) {
#if defined(_MSC_VER)
        YieldProcessor();
#elif defined(__x86_64__) || defined(__i386__)
        __builtin_ia32_pause();
#elif defined(__aarch64__)
        __asm__ __volatile__("yield");
#endif
    } else {
#if defined(_MSC_VER)
        SwitchToThread();
#else
        sched_yield();
#endif
    }
}

#endif
