/* A clock for compiled code that runs without Python's lock (GIL). */
#ifndef PYBUNDLE_CLOCK_H
#define PYBUNDLE_CLOCK_H

#include "_simd.h"

#if defined(_WIN32)
#define WIN32_LEAN_AND_MEAN
#define NOMINMAX
#include <windows.h>
#else
#include <time.h>
#endif

/* Returns the seconds since some fixed moment; the clock never runs backwards. */
PB_INLINE double pb_seconds(void) {
#if defined(_WIN32)
    LARGE_INTEGER count, frequency;
    QueryPerformanceCounter(&count);
    QueryPerformanceFrequency(&frequency);
    return (double)count.QuadPart / (double)frequency.QuadPart;
#else
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
#endif
}

#endif
