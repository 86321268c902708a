/* The time, for compiled code that runs without Python's lock. */
#ifndef PYBUNDLE_CLOCK_H
#define PYBUNDLE_CLOCK_H

#include <time.h>
#include "_simd.h"

/* Seconds since some moment; on Windows the user may set them back. */
PB_INLINE double pb_seconds(void) {
    struct timespec now;
#if defined(_WIN32)
    timespec_get(&now, TIME_UTC);
#else
    clock_gettime(CLOCK_MONOTONIC, &now);
#endif
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

#endif
