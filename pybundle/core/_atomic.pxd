# Numbers that two threads share without a lock.

from libc.stdint cimport int64_t

cdef extern from "_atomic.h" nogil:
    int PB_PAUSES           # turns of waiting before the processor is given away
    int64_t pb_load(const int64_t* at)
    void pb_store(int64_t* at, int64_t value)
    int64_t pb_count(int64_t* at)       # adds 1 and gives what was there
    void pb_wait(int64_t turn)
