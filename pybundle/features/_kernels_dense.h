/* Template: dense rows of PB_X against weights of PB_S. Needs PB_X, PB_S, PB_PAIR, PB_ISA, PB_BYTES, PB_TILE,
 * PB_TARGET; PB_SUMS adds the accumulation of rows in PB_S = double. Undefines the first three. */

#define FN(name) PB_CAT(name, PB_PAIR, PB_ISA)
#define INLINE PB_TARGET PB_INLINE

#if PB_VECTORS
#define LANES ((int)(PB_BYTES / sizeof(PB_S)))
typedef PB_S FN(vec) __attribute__((vector_size(PB_BYTES), aligned(sizeof(PB_S)), may_alias));
typedef PB_X FN(xvec) __attribute__((vector_size(PB_BYTES / sizeof(PB_S) * sizeof(PB_X)), aligned(sizeof(PB_X)),
                                     may_alias));
typedef int32_t FN(ivec) __attribute__((vector_size(PB_BYTES / sizeof(PB_S) * 4), may_alias));

INLINE FN(vec) FN(load)(const PB_X *p)
{
#ifdef PB_LOAD
    return (FN(vec))PB_LOAD(p);
#else
    /* bytes go through int32, a step for which there are instructions */
    FN(xvec) x = *(const FN(xvec) *)p;
    return sizeof(PB_X) == 1 ? __builtin_convertvector(__builtin_convertvector(x, FN(ivec)), FN(vec))
                             : __builtin_convertvector(x, FN(vec));
#endif
}

typedef PB_S FN(vec32) __attribute__((vector_size(32), may_alias));
typedef PB_S FN(vec16) __attribute__((vector_size(16), may_alias));

/* Upper half onto lower half until one is left: the order of the CSR kernel. */
INLINE PB_S FN(sum)(FN(vec) v)
{
#if PB_BYTES == 64
    const union { FN(vec) whole; FN(vec32) part[2]; } a = {v};
    const FN(vec32) v32 = a.part[0] + a.part[1];
#elif PB_BYTES == 32
    const FN(vec32) v32 = (FN(vec32))v;
#endif
#if PB_BYTES >= 32
    const union { FN(vec32) whole; FN(vec16) part[2]; } b = {v32};
    const FN(vec16) v16 = b.part[0] + b.part[1];
#else
    const FN(vec16) v16 = (FN(vec16))v;
#endif
    enum { QUARTERS = 16 / sizeof(PB_S) };
    return QUARTERS == 4 ? (v16[0] + v16[2 % QUARTERS]) + (v16[1] + v16[3 % QUARTERS]) : v16[0] + v16[1];
}
#else
#define LANES 1
typedef PB_S FN(vec);
INLINE FN(vec) FN(load)(const PB_X *p) { return (PB_S)*p; }
INLINE PB_S FN(sum)(FN(vec) v) { return v; }
#endif

/* The first `count` < LANES entries, the rest 0. */
INLINE FN(vec) FN(load_tail)(const PB_X *p, ptrdiff_t count)
{
    PB_X padded[LANES];
    memset(padded, 0, sizeof padded);
    memcpy(padded, p, (size_t)count * sizeof(PB_X));
    return FN(load)(padded);
}

/* NR rows times NC classes of scores, all sums in registers: NR and NC are constants where this is inlined. */
INLINE void FN(tile)(const PB_X *const *x, const PB_X *const *next, int n_next, ptrdiff_t d, const PB_S *W,
                     ptrdiff_t ldw, PB_S *S, const int NR, const int NC)
{
    FN(vec) acc[4][5], v[4];
    const ptrdiff_t whole = d - d % LANES;
    for (int r = 0; r < NR; r++)
        for (int c = 0; c < NC; c++)
            acc[r][c] = (FN(vec)){0};
    for (ptrdiff_t j = 0; j < whole; j += LANES) {
        for (int r = 0; r < NR; r++)
            v[r] = FN(load)(x[r] + j);
        if (LANES * sizeof(PB_X) >= 64 || j * sizeof(PB_X) % 64 == 0) /* once a cache line */
            for (int r = 0; r < n_next; r++)
                PB_PREFETCH(next[r] + j);
        for (int c = 0; c < NC; c++) {
            const FN(vec) w = *(const FN(vec) *)(W + c * ldw + j);
            for (int r = 0; r < NR; r++)
                acc[r][c] += v[r] * w;
        }
    }
    if (whole < d) {
        for (int r = 0; r < NR; r++)
            v[r] = FN(load_tail)(x[r] + whole, d - whole);
        for (int c = 0; c < NC; c++)
            for (int r = 0; r < NR; r++)
                acc[r][c] += v[r] * *(const FN(vec) *)(W + c * ldw + whole);
    }
    for (int c = 0; c < NC; c++)
        for (int r = 0; r < NR; r++)
            S[c * PB_BLOCK + r] = FN(sum)(acc[r][c]);
}

/* One row and up to PB_TILE classes, where a block does not end on four rows. */
INLINE void FN(row)(const PB_X *const *x, const PB_X *const *next, int n_next, ptrdiff_t d, const PB_S *W,
                    ptrdiff_t ldw, int classes, PB_S *S)
{
    if (classes >= PB_TILE)
        FN(tile)(x, next, n_next, d, W, ldw, S, 1, PB_TILE);
    else
        for (int c = 0; c < classes; c++)
            FN(tile)(x, next, c == 0 ? n_next : 0, d, W + c * ldw, ldw, S + c * PB_BLOCK, 1, 1);
}

/* Tiles outside, rows inside: one tile of W stays in the first cache while the block passes by in the second.
 * Meanwhile the next block is fetched, evenly over the first tiles, so that memory never rests. */
PB_TARGET static void FN(score)(const pb_matrix *X, const ptrdiff_t *rows, int n, int ahead, const void *weights,
                                ptrdiff_t ldw, int K, void *scores)
{
    const PB_X *data = (const PB_X *)X->data, *x[4], *next[4];
    const ptrdiff_t d = X->d;
    const int tiles = (K + PB_TILE - 1) / PB_TILE, most = n > 4 || ahead < 4 ? 4 : ahead;
    const int share = most > 4 * tiles ? 4 : (most + tiles - 1) / tiles;
    int fetched = 0;
    for (int k = 0; k < K; k += PB_TILE, fetched += share) {
        const PB_S *W = (const PB_S *)weights + k * ldw;
        PB_S *S = (PB_S *)scores + k * PB_BLOCK;
        for (int r = 0; r < n; r += 4) {
            const int rest = n - r;
            int fetch = 0;
            for (int q = 0; q < 4; q++)
                x[q] = data + rows[q < rest ? r + q : r] * d;
            for (int q = fetched; q < fetched + share && q < most && r + q < ahead; q++)
                next[fetch++] = data + rows[n + r + q] * d;
            if (rest < 4)
                for (int q = 0; q < rest; q++)
                    FN(row)(x + q, next, q == 0 ? fetch : 0, d, W, ldw, K - k, S + r + q);
            else
                switch (K - k) {
                default: FN(tile)(x, next, fetch, d, W, ldw, S + r, 4, PB_TILE); break;
#if PB_TILE > 4
                case 4: FN(tile)(x, next, fetch, d, W, ldw, S + r, 4, 4); break;
                case 3: FN(tile)(x, next, fetch, d, W, ldw, S + r, 4, 3); break;
#endif
#if PB_TILE > 2
                case 2: FN(tile)(x, next, fetch, d, W, ldw, S + r, 4, 2); break;
#endif
                case 1: FN(tile)(x, next, fetch, d, W, ldw, S + r, 4, 1); break;
                }
        }
    }
}

/* One row against N others, which a sequential method has in cache. */
INLINE void FN(dots_of)(const PB_X *x, const PB_X *const *z, ptrdiff_t d, PB_S *out, const int N)
{
    const ptrdiff_t whole = d - d % LANES;
    FN(vec) acc[PB_STEP - 1];
    for (int q = 0; q < N; q++)
        acc[q] = (FN(vec)){0};
    for (ptrdiff_t j = 0; j < whole; j += LANES) {
        const FN(vec) v = FN(load)(x + j);
        for (int q = 0; q < N; q++)
            acc[q] += v * FN(load)(z[q] + j);
    }
    if (whole < d) {
        const FN(vec) v = FN(load_tail)(x + whole, d - whole);
        for (int q = 0; q < N; q++)
            acc[q] += v * FN(load_tail)(z[q] + whole, d - whole);
    }
    for (int q = 0; q < N; q++)
        out[q] = FN(sum)(acc[q]);
}

PB_TARGET static void FN(dots)(const pb_matrix *X, ptrdiff_t row, const ptrdiff_t *rows, int n, void *out)
{
    const PB_X *data = (const PB_X *)X->data, *z[PB_STEP];
    for (int q = 0; q < n; q++)
        z[q] = data + rows[q] * X->d;
    switch (n) {
    case 3: FN(dots_of)(data + row * X->d, z, X->d, (PB_S *)out, 3); break;
    case 2: FN(dots_of)(data + row * X->d, z, X->d, (PB_S *)out, 2); break;
    case 1: FN(dots_of)(data + row * X->d, z, X->d, (PB_S *)out, 1); break;
    }
}

/* W += sum of N rows; the padding of W stays 0. */
INLINE void FN(add_rows)(const PB_X *const *x, const PB_S *coef, ptrdiff_t d, PB_S *W, const int N)
{
    const ptrdiff_t whole = d - d % LANES;
    for (ptrdiff_t j = 0; j < whole; j += LANES) {
        FN(vec) w = *(const FN(vec) *)(W + j);
        for (int e = 0; e < N; e++)
            w += coef[e] * FN(load)(x[e] + j);
        *(FN(vec) *)(W + j) = w;
    }
    if (whole < d) {
        FN(vec) w = *(const FN(vec) *)(W + whole);
        for (int e = 0; e < N; e++)
            w += coef[e] * FN(load_tail)(x[e] + whole, d - whole);
        *(FN(vec) *)(W + whole) = w;
    }
}

PB_TARGET static void FN(update)(const pb_matrix *X, const ptrdiff_t *rows, int n, const void *coefs, int ldc, int K,
                                 void *weights, ptrdiff_t ldw)
{
    const PB_X *data = (const PB_X *)X->data, *x[PB_STEP];
    PB_S coef[PB_STEP];
    for (int k = 0; k < K; k++) {
        PB_S *W = (PB_S *)weights + k * ldw;
        int count = 0;
        for (int e = 0; e < n; e++) {
            const PB_S c = ((const PB_S *)coefs)[e * ldc + k];
            if (c != 0) {
                x[count] = data + rows[e] * X->d;
                coef[count++] = c;
            }
        }
        switch (count) {
        case 4: FN(add_rows)(x, coef, X->d, W, 4); break;
        case 3: FN(add_rows)(x, coef, X->d, W, 3); break;
        case 2: FN(add_rows)(x, coef, X->d, W, 2); break;
        case 1: FN(add_rows)(x, coef, X->d, W, 1); break;
        }
    }
}

/* Lanes of `a` where the comparison holds, else of `b`; compilers do not vectorise the loop below themselves. */
#if PB_VECTORS
typedef __typeof__((FN(vec)){0} < (FN(vec)){0}) FN(mask);
#define SELECT(m, a, b) ((FN(vec))(((m) & (FN(mask))(a)) | (~(m) & (FN(mask))(b))))
#else
typedef int FN(mask);
#define SELECT(m, a, b) ((m) ? (a) : (b))
#endif

PB_TARGET static void FN(top2)(const void *scores, int K, void *best, void *second, int32_t *label)
{
    for (int r = 0; r < PB_BLOCK; r += LANES) {
        const PB_S *S = (const PB_S *)scores + r;
        const FN(vec) zero = {0};
        FN(vec) high = *(const FN(vec) *)S, low = zero - (PB_S)INFINITY, at = zero, k = zero;
        for (int i = 1; i < K; i++) {
            const FN(vec) v = *(const FN(vec) *)(S + i * PB_BLOCK);
            const FN(mask) above = v > high;
            const FN(vec) loser = SELECT(above, high, v);
            k += 1;                                 /* labels are stored in the type of the scores */
            at = SELECT(above, k, at);
            high = SELECT(above, v, high);
            low = SELECT(loser > low, loser, low);
        }
        *(FN(vec) *)((PB_S *)best + r) = high;
        *(FN(vec) *)((PB_S *)second + r) = low;
        *(FN(vec) *)((PB_S *)best + PB_BLOCK + r) = at;
    }
    for (int r = 0; r < PB_BLOCK; r++)
        label[r] = (int32_t)((const PB_S *)best)[PB_BLOCK + r];
}
#undef SELECT

#ifdef PB_SUMS
/* Columns in strips whose sums stay in registers while the rows pass by: no stores in the loop over rows. */
INLINE void FN(strip)(const PB_X *data, ptrdiff_t d, const ptrdiff_t *rows, const double *coef, int n, double *a,
                      const int NV)
{
    FN(vec) acc[8];
    for (int q = 0; q < NV; q++)
        acc[q] = *(FN(vec) *)(a + q * LANES);
    for (int e = 0; e < n; e++) {
        const PB_X *x = data + rows[e] * d;
        const double c = coef[e];
        for (int q = 0; q < NV; q++)
            acc[q] += c * FN(load)(x + q * LANES);
    }
    for (int q = 0; q < NV; q++)
        *(FN(vec) *)(a + q * LANES) = acc[q];
}

PB_TARGET static void FN(accumulate)(const pb_matrix *X, const ptrdiff_t *rows, const double *coef, int n, double *a)
{
    const PB_X *data = (const PB_X *)X->data;
    const ptrdiff_t d = X->d;
    ptrdiff_t j = 0;
    for (; j + 8 * LANES <= d; j += 8 * LANES)
        FN(strip)(data + j, d, rows, coef, n, a + j, 8);
    for (; j + 2 * LANES <= d; j += 2 * LANES)
        FN(strip)(data + j, d, rows, coef, n, a + j, 2);
    for (; j < d; j++) {
        double s = a[j];
        for (int e = 0; e < n; e++)
            s += coef[e] * (double)data[rows[e] * d + j];
        a[j] = s;
    }
}
#endif

#undef FN
#undef INLINE
#undef LANES
#undef PB_X
#undef PB_S
#undef PB_PAIR
#undef PB_SUMS
#undef PB_LOAD
