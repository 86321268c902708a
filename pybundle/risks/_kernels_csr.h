/* Template: CSR rows with values of PB_X; scores in float64 against W' (d, ldw), classes contiguous and padded
 * to whole vectors, so that one non-zero costs K / LANES multiply-adds. Needs PB_X, PB_PAIR; undefines them. */

#define FN(name) PB_CAT(name, PB_PAIR, PB_ISA)
#define INLINE PB_TARGET PB_INLINE

#if PB_VECTORS
#define LANES (PB_BYTES / 8)
typedef double FN(vec) __attribute__((vector_size(PB_BYTES), aligned(8), may_alias));
#else
#define LANES 1
typedef double FN(vec);
#endif

INLINE void FN(tile)(const PB_X *x, const int32_t *index, ptrdiff_t nnz, const double *W, ptrdiff_t ldw, double *out,
                     const int NV)
{
    FN(vec) acc[4];
    for (int q = 0; q < NV; q++)
        acc[q] = (FN(vec)){0};
    for (ptrdiff_t e = 0; e < nnz; e++) {
        const double v = x[e];
        const double *w = W + index[e] * ldw;
        for (int q = 0; q < NV; q++)
            acc[q] += v * *(const FN(vec) *)(w + q * LANES);
    }
    for (int q = 0; q < NV; q++)
        *(FN(vec) *)(out + q * LANES) = acc[q];
}

PB_TARGET static void FN(score)(const pb_matrix *X, const ptrdiff_t *rows, int n, int ahead, const void *weights,
                                ptrdiff_t ldw, int K, void *scores)
{
    const double *W = (const double *)weights;
    double *S = (double *)scores, out[32];
    for (int r = 0; r < n; r++) {
        const int64_t start = X->indptr[rows[r]];
        const ptrdiff_t nnz = (ptrdiff_t)(X->indptr[rows[r] + 1] - start);
        const PB_X *x = (const PB_X *)X->data + start;
        const int32_t *index = X->indices + start;
        if (r + 1 < n + ahead) {
            PB_PREFETCH((const PB_X *)X->data + X->indptr[rows[r + 1]]);
            PB_PREFETCH(X->indices + X->indptr[rows[r + 1]]);
        }
        if (ldw == 1) {
            double s = 0.0;
            for (ptrdiff_t e = 0; e < nnz; e++)
                s += x[e] * W[index[e]];
            S[r] = s;
            continue;
        }
        for (int k = 0; k < K; k += 4 * LANES) {
            const int left = K - k < 4 * LANES ? K - k : 4 * LANES;
            switch ((left + LANES - 1) / LANES) {
            case 1: FN(tile)(x, index, nnz, W + k, ldw, out, 1); break;
            case 2: FN(tile)(x, index, nnz, W + k, ldw, out, 2); break;
            case 3: FN(tile)(x, index, nnz, W + k, ldw, out, 3); break;
            default: FN(tile)(x, index, nnz, W + k, ldw, out, 4);
            }
            for (int c = 0; c < left; c++)
                S[(k + c) * PB_BLOCK + r] = out[c];
        }
    }
}

PB_TARGET static void FN(accumulate)(const pb_matrix *X, const ptrdiff_t *rows, const double *coef, int n, double *a)
{
    for (int e = 0; e < n; e++) {
        const double c = coef[e];
        for (int64_t q = X->indptr[rows[e]]; q < X->indptr[rows[e] + 1]; q++)
            a[X->indices[q]] += c * ((const PB_X *)X->data)[q];
    }
}

#undef FN
#undef INLINE
#undef LANES
#undef PB_X
#undef PB_PAIR
