/* Template: CSR rows with values of PB_X and scores of PB_S against W' (d, ldw), classes contiguous and padded to
 * whole vectors, so that one non-zero costs K / LANES multiply-adds; ldw = 1 for one score. Needs PB_X, PB_S, PB_PAIR,
 * PB_ISA, PB_BYTES, PB_TARGET; PB_PASSES adds the scores of a pass, PB_SUMS the accumulation of rows. Undefines the
 * first three and these two.
 *
 * `score` sums column j in lane j % LANES and the lanes in the order of the dense kernel. An entry 0 changes no sum, so
 * both storages give the same scores to the last bit, hence the same labels and planes, and methods on planes the same
 * runs. `step` sums in any order. */

#define FN(name) PB_CAT(name, PB_PAIR, PB_ISA)
#define INLINE PB_TARGET PB_INLINE

#if PB_VECTORS
#define LANES ((int)(PB_BYTES / sizeof(PB_S)))
typedef PB_S FN(vec) __attribute__((vector_size(PB_BYTES), aligned(sizeof(PB_S)), may_alias));
#else
#define LANES 1
typedef PB_S FN(vec);
#endif

INLINE void FN(tile)(const PB_X *x, const int32_t *index, ptrdiff_t nnz, const PB_S *W, ptrdiff_t ldw, PB_S *out,
                     const int NV)
{
    FN(vec) acc[LANES][4];
    for (int l = 0; l < LANES; l++)
        for (int q = 0; q < NV; q++)
            acc[l][q] = (FN(vec)){0};
    for (ptrdiff_t e = 0; e < nnz; e++) {
        const PB_S v = (PB_S)x[e];
        const PB_S *w = W + index[e] * ldw;
        FN(vec) *sum = acc[index[e] & (LANES - 1)];
        for (int q = 0; q < NV; q++)
            sum[q] += v * *(const FN(vec) *)(w + q * LANES);
    }
    for (int half = LANES / 2; half > 0; half /= 2)
        for (int l = 0; l < half; l++)
            for (int q = 0; q < NV; q++)
                acc[l][q] += acc[l + half][q];
    for (int q = 0; q < NV; q++)
        *(FN(vec) *)(out + q * LANES) = acc[0][q];
}

INLINE PB_S FN(single)(const PB_X *x, const int32_t *index, ptrdiff_t nnz, const PB_S *W)
{
    PB_S acc[LANES];
    memset(acc, 0, sizeof acc);
    for (ptrdiff_t e = 0; e < nnz; e++)
        acc[index[e] & (LANES - 1)] += (PB_S)x[e] * W[index[e]];
    for (int half = LANES / 2; half > 0; half /= 2)
        for (int l = 0; l < half; l++)
            acc[l] += acc[l + half];
    return acc[0];
}

/* As `tile`, in any order: two partial sums, in registers. */
INLINE void FN(tile_any)(const PB_X *x, const int32_t *index, ptrdiff_t nnz, const PB_S *W, ptrdiff_t ldw, PB_S *out,
                     const int NV)
{
    FN(vec) even[4], odd[4];
    ptrdiff_t e = 0;
    for (int q = 0; q < NV; q++)
        even[q] = odd[q] = (FN(vec)){0};
    for (; e + 1 < nnz; e += 2) {
        const PB_S *w0 = W + index[e] * ldw, *w1 = W + index[e + 1] * ldw;
        for (int q = 0; q < NV; q++) {
            even[q] += (PB_S)x[e] * *(const FN(vec) *)(w0 + q * LANES);
            odd[q] += (PB_S)x[e + 1] * *(const FN(vec) *)(w1 + q * LANES);
        }
    }
    for (int q = 0; q < NV; q++) {
        if (e < nnz)
            even[q] += (PB_S)x[e] * *(const FN(vec) *)(W + index[e] * ldw + q * LANES);
        *(FN(vec) *)(out + q * LANES) = even[q] + odd[q];
    }
}

/* As `single`, in any order: four partial sums, in registers. */
INLINE PB_S FN(single_any)(const PB_X *x, const int32_t *index, ptrdiff_t nnz, const PB_S *W)
{
    PB_S a = 0, b = 0, c = 0, d = 0;
    ptrdiff_t e = 0;
    for (; e + 3 < nnz; e += 4) {
        a += (PB_S)x[e] * W[index[e]];
        b += (PB_S)x[e + 1] * W[index[e + 1]];
        c += (PB_S)x[e + 2] * W[index[e + 2]];
        d += (PB_S)x[e + 3] * W[index[e + 3]];
        PB_OPAQUE(e);
    }
    for (; e < nnz; e++)
        a += (PB_S)x[e] * W[index[e]];
    return (a + b) + (c + d);
}

/* S[k * PB_BLOCK] = <W_k, x_row>, with the sums in the order of the dense kernel or in any */
INLINE void FN(row)(const pb_matrix *X, ptrdiff_t row, const PB_S *W, ptrdiff_t ldw, int K, PB_S *S, const int ordered)
{
    const int64_t start = X->indptr[row];
    const ptrdiff_t nnz = (ptrdiff_t)(X->indptr[row + 1] - start);
    const PB_X *x = (const PB_X *)X->data + start;
    const int32_t *index = X->indices + start;
    PB_S out[4 * LANES];
    if (ldw == 1) {
        *S = ordered ? FN(single)(x, index, nnz, W) : FN(single_any)(x, index, nnz, W);
        return;
    }
    for (int k = 0; k < K; k += 4 * LANES) {
        const int left = K - k < 4 * LANES ? K - k : 4 * LANES;
        switch ((left + LANES - 1) / LANES + (ordered ? 0 : 4)) {
        case 1: FN(tile)(x, index, nnz, W + k, ldw, out, 1); break;
        case 2: FN(tile)(x, index, nnz, W + k, ldw, out, 2); break;
        case 3: FN(tile)(x, index, nnz, W + k, ldw, out, 3); break;
        case 4: FN(tile)(x, index, nnz, W + k, ldw, out, 4); break;
        case 5: FN(tile_any)(x, index, nnz, W + k, ldw, out, 1); break;
        case 6: FN(tile_any)(x, index, nnz, W + k, ldw, out, 2); break;
        case 7: FN(tile_any)(x, index, nnz, W + k, ldw, out, 3); break;
        default: FN(tile_any)(x, index, nnz, W + k, ldw, out, 4);
        }
        for (int c = 0; c < left; c++)
            S[(k + c) * PB_BLOCK] = out[c];
    }
}

#ifdef PB_PASSES
PB_TARGET static void FN(score)(const pb_matrix *X, const ptrdiff_t *rows, int n, int ahead, const void *W,
                                ptrdiff_t ldw, int K, void *scores)
{
    for (int r = 0; r < n; r++) {
        if (r + 1 < n + ahead) {
            PB_PREFETCH((const PB_X *)X->data + X->indptr[rows[r + 1]]);
            PB_PREFETCH(X->indices + X->indptr[rows[r + 1]]);
        }
        FN(row)(X, rows[r], (const PB_S *)W, ldw, K, (PB_S *)scores + r, 1);
    }
}
#endif

/* Rows in any order, as a sequential method visits them: the one after the next is fetched from its first entry to its
 * last (for one score its first entries: the processor is faster by itself there), and the weights that the next one
 * needs, all at once, unless W is small enough to be in the cache anyway. */
PB_TARGET static void FN(step)(const pb_matrix *X, const ptrdiff_t *rows, int n, int ahead, const void *weights,
                               ptrdiff_t ldw, int K, void *scores)
{
    const PB_S *W = (const PB_S *)weights;
    const int is_far = X->d * ldw * (ptrdiff_t)sizeof(PB_S) > PB_NEAR;
    for (int r = 0; r < n; r++) {
        if (r + 2 < n + ahead) {
            const int64_t first = X->indptr[rows[r + 2]], last = ldw > 1 ? X->indptr[rows[r + 2] + 1] : first + 1;
            for (int64_t e = first; e < last; e += 64 / (int64_t)sizeof(PB_X))
                PB_PREFETCH((const PB_X *)X->data + e);
            for (int64_t e = first; e < last; e += 64 / (int64_t)sizeof(int32_t))
                PB_PREFETCH(X->indices + e);
        }
        if (is_far && r + 1 < n + ahead)
            for (int64_t e = X->indptr[rows[r + 1]]; e < X->indptr[rows[r + 1] + 1]; e++)
                for (int k = 0; k < K; k += 64 / (int)sizeof(PB_S))
                    PB_PREFETCH(W + X->indices[e] * ldw + k);
        FN(row)(X, rows[r], W, ldw, K, (PB_S *)scores + r, 0);
    }
}

PB_TARGET static void FN(update)(const pb_matrix *X, const ptrdiff_t *rows, int n, const void *coefs, int ldc, int K,
                                 void *weights, ptrdiff_t ldw)
{
    PB_S *W = (PB_S *)weights;
    for (int e = 0; e < n; e++) {
        const int64_t start = X->indptr[rows[e]];
        const ptrdiff_t nnz = (ptrdiff_t)(X->indptr[rows[e] + 1] - start);
        const PB_X *x = (const PB_X *)X->data + start;
        const int32_t *index = X->indices + start;
        const PB_S *coef = (const PB_S *)coefs + e * ldc;
        if (ldw == 1)
            for (ptrdiff_t q = 0; q < nnz; q++)
                W[index[q]] += coef[0] * (PB_S)x[q];
        else
            for (int k = 0; k < K; k += LANES) { /* few labels change: most vectors may stay as they are */
                int changed = 0;
                for (int l = 0; l < LANES; l++)
                    changed |= coef[k + l] != 0;
                if (changed) {
                    const FN(vec) change = *(const FN(vec) *)(coef + k);
                    for (ptrdiff_t q = 0; q < nnz; q++)
                        *(FN(vec) *)(W + index[q] * ldw + k) += (PB_S)x[q] * change;
                }
            }
    }
}

#ifdef PB_SUMS
PB_TARGET static void FN(accumulate)(const pb_matrix *X, const ptrdiff_t *rows, const double *coef, int n, double *a)
{
    for (int e = 0; e < n; e++) {
        const int64_t start = X->indptr[rows[e]], nnz = X->indptr[rows[e] + 1] - start;
        const PB_X *PB_RESTRICT x = (const PB_X *)X->data + start;
        const int32_t *PB_RESTRICT index = X->indices + start;
        double *PB_RESTRICT sum = a;
        const double c = coef[e];
        for (int64_t q = 0; q < nnz; q++)
            sum[index[q]] += c * x[q];
    }
}
#endif

#undef FN
#undef INLINE
#undef LANES
#undef PB_X
#undef PB_S
#undef PB_PAIR
#undef PB_PASSES
#undef PB_SUMS
