/* A multiclass hinge loss in C, as a risk of parts and as functions of examples; failures on demand. Sums run from left
 * to right, as in the Python twin. Rounding differs where a compiler fuses products into sums: -ffp-contract=off. */
#include <math.h>
#include <stdint.h>

typedef struct {
    int64_t n, d, K, P;
    const double *X;            /* (n, d) */
    const int32_t *y;           /* (n,) */
    int64_t bad_example;        /* -1 for none ... */
    int64_t mistake;            /* ... else what it does: a code > 0, or one of those below */
} data;

enum { NO_VALUE = -1, INFINITE = -2, BAD_INDEX = -3, TOO_MANY = -4, NEGATIVE_LOSS = -5, LOW_UPPER = -6, BELOW = -7 };

static double score(const data *s, const double *w, int64_t i, int64_t k) {
    double sum = 0.0;
    for (int64_t j = 0; j < s->d; j++) sum += w[k * s->d + j] * s->X[i * s->d + j];
    return sum;
}

static int32_t worst(const data *s, const double *w, int64_t i, double *value) {
    int32_t best = s->y[i];
    double truth = score(s, w, i, s->y[i]);
    *value = 0.0;
    for (int32_t k = 0; k < s->K; k++) {
        double found = k == s->y[i] ? 0.0 : 1.0 + (score(s, w, i, k) - truth);
        if (found > *value) { *value = found; best = k; }
    }
    return best;
}

int risk(const double *w, int64_t dim, int64_t part, double *value, double *slope, void *user_data) {
    const data *s = (const data *)user_data;
    double total = 0.0, found;
    if (dim != s->K * s->d) return 99;
    for (int64_t i = part; i < s->n; i += s->P) {
        int32_t k = worst(s, w, i, &found);
        if (i == s->bad_example) {
            if (s->mistake > 0) return (int)s->mistake;
            if (s->mistake == NO_VALUE) return 0;
            if (s->mistake == INFINITE) slope[0] = INFINITY;
            if (s->mistake == BELOW) total -= 1e6;
        }
        total += found;
        if (k == s->y[i]) continue;
        for (int64_t j = 0; j < s->d; j++) {
            slope[k * s->d + j] += s->X[i * s->d + j];
            slope[s->y[i] * s->d + j] -= s->X[i * s->d + j];
        }
    }
    *value = total;
    return 0;
}

int solve(const double *w, int64_t dim, int64_t i, int32_t *labelling, double *value, double *upper, void *user_data) {
    const data *s = (const data *)user_data;
    if (dim != s->K * s->d) return 99;
    if (i == s->bad_example && s->mistake > 0) return (int)s->mistake;
    labelling[0] = worst(s, w, i, value);
    if (i == s->bad_example && s->mistake == NO_VALUE) *value = NAN;
    if (i == s->bad_example && s->mistake == LOW_UPPER) *upper = *value - 1.0;
    return 0;
}

int plane(int64_t i, const int32_t *labelling, double *loss, int64_t *n, int32_t *indices, double *values,
          void *user_data) {
    const data *s = (const data *)user_data;
    const int32_t k = labelling[0], y = s->y[i];
    const int is_bad = i == s->bad_example;
    *n = 0;
    *loss = k != y;
    if (k != y)
        for (int64_t j = 0; j < s->d; j++) {
            indices[*n] = (int32_t)(k * s->d + j);
            values[(*n)++] = s->X[i * s->d + j];
            indices[*n] = (int32_t)(y * s->d + j);
            values[(*n)++] = -s->X[i * s->d + j];
        }
    if (is_bad && s->mistake == INFINITE) { *n = 1; indices[0] = 0; values[0] = INFINITY; }
    if (is_bad && s->mistake == BAD_INDEX) { *n = 1; indices[0] = (int32_t)(s->K * s->d); values[0] = 1.0; }
    if (is_bad && s->mistake == TOO_MANY) *n = 1000000;
    if (is_bad && s->mistake == NEGATIVE_LOSS) *loss = -1.0;
    return 0;
}
