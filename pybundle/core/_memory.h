/* Allocation of large blocks of memory.
 *
 * The first access to a page of memory, a page fault, costs more than reading it many times. On systems with huge
 * pages, a block of 2 MiB or more gets huge pages of its own: one fault in place of 512. It is mapped, and not
 * allocated by malloc, because malloc would split the pages when it returns memory to the system. */
#ifndef PYBUNDLE_MEMORY_H
#define PYBUNDLE_MEMORY_H

#include <stdlib.h>

#if defined(__linux__)
#include <sys/mman.h>
#endif

/* The header in front of a block: its mapping, with length 0 if the block is from malloc. */
typedef struct {
    void *mapping;
    size_t length;
    char padding[128 - sizeof(void *) - sizeof(size_t)];
} pb_block;

/* Returns NULL if there is not enough memory. */
static inline void *pb_allocate(size_t size)
{
    pb_block *block;
    size += sizeof(pb_block);
#if defined(__linux__) && defined(MADV_HUGEPAGE)
    const size_t huge = (size_t)2 << 20;
    if (size >= huge) {
        const size_t length = (size + 2 * huge - 1) / huge * huge;     /* long enough to start on a huge page */
        void *mapping = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (mapping == MAP_FAILED)
            return NULL;
        block = (pb_block *)(((size_t)mapping + huge - 1) / huge * huge);
        (void)madvise(block, length - huge, MADV_HUGEPAGE);            /* the system may refuse: then pages are small */
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
