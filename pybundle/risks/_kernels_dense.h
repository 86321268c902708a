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
    FN(xvec) x = *(const FN(xvec) *)p;
    /* bytes go through int32: compilers have instructions for both steps, but none for both at once */
    return sizeof(PB_X) == 1 ? __builtin_convertvector(__builtin_convertvector(x, FN(ivec)), FN(vec))
                             : __builtin_convertvector(x, FN(vec));
}

INLINE PB_S FN(sum)(FN(vec) v)
{
    PB_S total = 0;
    for (int l = 0; l < LANES; l++)
        total += v[l];
    return total;
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
INLINE void FN(tile)(const PB_X *const *x, const PB_X *const *next, ptrdiff_t d, const PB_S *W, ptrdiff_t ldw,
                     PB_S *S, const int NR, const int NC)
{
    FN(vec) acc[4][5], v[4];
    const ptrdiff_t whole = d - d % LANES;
    for (int r = 0; r < NR; r++)
        for (int c = 0; c < NC; c++)
            acc[r][c] = (FN(vec)){0};
    for (ptrdiff_t j = 0; j < whole; j += LANES) {
        for (int r = 0; r < NR; r++) {
            v[r] = FN(load)(x[r] + j);
            if (next && (LANES * sizeof(PB_X) >= 64 || j * sizeof(PB_X) % 64 == 0)) /* once a cache line */
                PB_PREFETCH(next[r] + j);
        }
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

INLINE void FN(classes)(const PB_X *const *x, const PB_X *const *next, ptrdiff_t d, const PB_S *W, ptrdiff_t ldw,
                        int K, PB_S *S, const int NR)
{
    int k = 0;
    for (; k + PB_TILE <= K; k += PB_TILE, next = NULL)
        FN(tile)(x, next, d, W + k * ldw, ldw, S + k * PB_BLOCK, NR, PB_TILE);
    W += k * ldw;
    S += k * PB_BLOCK;
    switch (K - k) {
#if PB_TILE > 4
    case 4: FN(tile)(x, next, d, W, ldw, S, NR, 4); break;
    case 3: FN(tile)(x, next, d, W, ldw, S, NR, 3); break;
#endif
#if PB_TILE > 2
    case 2: FN(tile)(x, next, d, W, ldw, S, NR, 2); break;
#endif
    case 1: FN(tile)(x, next, d, W, ldw, S, NR, 1); break;
    }
}

PB_TARGET static void FN(score)(const pb_matrix *X, const ptrdiff_t *rows, int n, int ahead, const void *W,
                                ptrdiff_t ldw, int K, void *S)
{
    const PB_X *data = (const PB_X *)X->data, *x[4], *next[4];
    int r = 0;
    for (; r + 4 <= n; r += 4) {
        for (int q = 0; q < 4; q++) {
            x[q] = data + rows[r + q] * X->d;
            next[q] = r + q + 4 < n + ahead ? data + rows[r + q + 4] * X->d : x[q];
        }
        FN(classes)(x, next, X->d, (const PB_S *)W, ldw, K, (PB_S *)S + r, 4);
    }
    for (; r < n; r++) {
        x[0] = data + rows[r] * X->d;
        FN(classes)(x, NULL, X->d, (const PB_S *)W, ldw, K, (PB_S *)S + r, 1);
    }
}

PB_TARGET static void FN(top2)(const void *scores, int K, void *out_best, void *out_second, int32_t *label)
{
    const PB_S *S = (const PB_S *)scores;
    PB_S *PB_RESTRICT best = (PB_S *)out_best, *PB_RESTRICT second = (PB_S *)out_second;
    for (int r = 0; r < PB_BLOCK; r++) {
        best[r] = S[r];
        second[r] = (PB_S)-INFINITY;
        label[r] = 0;
    }
    for (int k = 1; k < K; k++)
        for (int r = 0; r < PB_BLOCK; r++) {
            const PB_S v = S[k * PB_BLOCK + r], b = best[r], low = v < b ? v : b;
            second[r] = second[r] > low ? second[r] : low;
            label[r] = v > b ? k : label[r];
            best[r] = v > b ? v : b;
        }
}

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
