/* The time, for compiled code that runs without Python's lock. */
#ifndef PYBUNDLE_CLOCK_H
#define PYBUNDLE_CLOCK_H

#include <time.h>
#include "_simd.h"

/* Seconds since some moment; the system may set them back. */
PB_INLINE double pb_seconds(void) {
    struct timespec now;
    timespec_get(&now, TIME_UTC);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

#endif
