/* Large blocks of memory.
 *
 * A page of fresh memory costs more than reading it many times. Where the system has huge pages, a block of
 * megabytes gets some of its own: one fault in place of 512. It is mapped, not allocated by malloc, which would
 * split the pages again when it returns memory. */
#ifndef PYBUNDLE_MEMORY_H
#define PYBUNDLE_MEMORY_H

#include <stdlib.h>

#if defined(__linux__)
#include <sys/mman.h>
#endif

/* In front of a block: its mapping, of length 0 if it came from malloc. */
typedef struct {
    void *mapping;
    size_t length;
    char padding[128 - sizeof(void *) - sizeof(size_t)];
} pb_block;

/* NULL if there is no memory. */
static inline void *pb_allocate(size_t size)
{
    pb_block *block;
    size += sizeof(pb_block);
#if defined(__linux__) && defined(MADV_HUGEPAGE)
    const size_t huge = (size_t)2 << 20;
    if (size >= huge) {
        const size_t length = (size + 2 * huge - 1) / huge * huge;     /* room to start on a huge page */
        void *mapping = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (mapping == MAP_FAILED)
            return NULL;
        block = (pb_block *)(((size_t)mapping + huge - 1) / huge * huge);
        (void)madvise(block, length - huge, MADV_HUGEPAGE);            /* advice: it may be refused */
        block->mapping = mapping;
        block->length = length;
        return block + 1;
    }
#endif
    block = (pb_block *)malloc(size);
    if (!block)
        return NULL;
    block->length = 0;
    return block + 1;
}

static inline void pb_free(void *memory)
{
    pb_block *block;
    if (!memory)
        return;
    block = (pb_block *)memory - 1;
#if defined(__linux__) && defined(MADV_HUGEPAGE)
    if (block->length) {
        munmap(block->mapping, block->length);
        return;
    }
#endif
    free(block);
}

#endif
