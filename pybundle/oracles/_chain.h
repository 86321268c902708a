/* Dynamic programs over chains, vectorised over labels: best labelling and marginals.
 *
 * A row has `ld` doubles, a multiple of PB_CHAIN_LANES; the first K are labels, the others padding. Loops over a row
 * have a constant number of lanes, which stay in registers. This file is compiled without -fassociative-math: no sum
 * is reordered, so the exponential keeps its two-part reduction. */
#ifndef PYBUNDLE_ORACLES_CHAIN_H
#define PYBUNDLE_ORACLES_CHAIN_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "_simd.h"

enum { PB_CHAIN_LANES = 8, PB_CHAIN_AHEAD = 32 };

#if defined(__GNUC__)
#define PB_PREFETCH(p) __builtin_prefetch(p)
#else
#define PB_PREFETCH(p) ((void)0)
#endif

/* GCC 12 would unroll a short loop completely before vectorisation, and then not vectorise it. */
#if defined(__GNUC__) && !defined(__clang__)
#define PB_LANES(l, n) _Pragma("GCC unroll 1") for (int l = 0; l < (n); l++)
#else
#define PB_LANES(l, n) for (int l = 0; l < (n); l++)
#endif

/* out[j] = max_k f[k] + row_k[j] for n lanes j */
PB_INLINE void pb_max_lanes(int K, int ld, const double *f, const double *rows, double *out, const int n)
{
    double top[16];
    PB_LANES(l, n) top[l] = f[0] + rows[l];
    for (int k = 1; k < K; k++) {
        const double a = f[k], *row = rows + (ptrdiff_t)k * ld;
        PB_LANES(l, n)
        {
            const double v = a + row[l];
            top[l] = v > top[l] ? v : top[l];
        }
    }
    PB_LANES(l, n) out[l] = top[l];
}

/* out[j] = sum_k f[k] row_k[j] for n lanes j */
PB_INLINE void pb_sum_lanes(int K, int ld, const double *f, const double *rows, double *out, const int n)
{
    double sum[16];
    PB_LANES(l, n) sum[l] = f[0] * rows[l];
    for (int k = 1; k < K; k++) {
        const double a = f[k], *row = rows + (ptrdiff_t)k * ld;
        PB_LANES(l, n) sum[l] += a * row[l];
    }
    PB_LANES(l, n) out[l] = sum[l];
}

PB_INLINE void pb_max_row(int K, int ld, const double *f, const double *rows, double *out)
{
    int j = 0;
    for (; j + 16 <= ld; j += 16)
        pb_max_lanes(K, ld, f, rows + j, out + j, 16);
    if (j < ld)
        pb_max_lanes(K, ld, f, rows + j, out + j, 8);
}

PB_INLINE void pb_sum_row(int K, int ld, const double *f, const double *rows, double *out)
{
    int j = 0;
    for (; j + 16 <= ld; j += 16)
        pb_sum_lanes(K, ld, f, rows + j, out + j, 16);
    if (j < ld)
        pb_sum_lanes(K, ld, f, rows + j, out + j, 8);
}

/* Returns the smallest j < K that maximises a[j] + b[j], or 0 if sums overflowed to NaN; `value` is the maximum. */
PB_INLINE int pb_argmax_row(int K, int ld, const double *a, const double *b, double *value)
{
    static const double lane[8] = {0, 1, 2, 3, 4, 5, 6, 7};
    double top[8], at[8], best;
    PB_LANES(l, 8) top[l] = a[l] + b[l];
    for (int j = 8; j < ld; j += 8)
        PB_LANES(l, 8)
        {
            const double v = a[j + l] + b[j + l];
            top[l] = v > top[l] ? v : top[l];
        }
    for (int half = 4; half; half /= 2)
        for (int l = 0; l < half; l++)
            top[l] = top[l] > top[l + half] ? top[l] : top[l + half];
    best = top[0];
    PB_LANES(l, 8) at[l] = a[l] + b[l] == best ? lane[l] : 1e300;
    for (int j = 8; j < ld; j += 8)
        PB_LANES(l, 8)
        {
            const double v = a[j + l] + b[j + l] == best ? j + lane[l] : 1e300;
            at[l] = at[l] < v ? at[l] : v;
        }
    for (int half = 4; half; half /= 2)
        for (int l = 0; l < half; l++)
            at[l] = at[l] < at[l + half] ? at[l] : at[l + half];
    *value = best;
    return at[0] < K ? (int)at[0] : 0;
}

PB_INLINE double pb_row_sum(int ld, const double *a)
{
    double sum[8];
    PB_LANES(l, 8) sum[l] = a[l];
    for (int j = 8; j < ld; j += 8)
        PB_LANES(l, 8) sum[l] += a[j + l];
    return ((sum[0] + sum[4]) + (sum[2] + sum[6])) + ((sum[1] + sum[5]) + (sum[3] + sum[7]));
}

/* row[k] += theta[k]; sets `bad` to 1 in the lane of a NaN or +inf */
PB_INLINE void pb_add_scores(int K, const double *PB_RESTRICT theta, double *PB_RESTRICT row, double *bad)
{
    int k = 0;
    for (; k + 8 <= K; k += 8)
        PB_LANES(l, 8)
        {
            row[k + l] += theta[k + l];
            bad[l] = theta[k + l] < INFINITY ? bad[l] : 1.0;
        }
    for (; k < K; k++) {
        row[k] += theta[k];
        bad[0] = theta[k] < INFINITY ? bad[0] : 1.0;
    }
}

/* Finds the best labelling of one chain, the lexicographically smallest of equals.
 *
 *   b_t(j) = theta_t(j) + max_k [T(j, k) + b_{t+1}(k)],   labels are read off from the left.
 *
 * Runs from the right and stores no back pointers: only the row of the label on the path is searched again. A batch
 * should run from its last item to its first, so that memory is read in one direction and prefetched.
 *   rows (K, ld): T, padded with -inf; columns (K, ld): its transpose, padded with 0
 *   b (length, ld): scratch; returns 0 if a score is NaN or +inf */
PB_INLINE int pb_viterbi_body(int length, int K, int ld, const double *theta, const double *rows,
                              const double *columns, const double *start, const double *end, double *b,
                              int32_t *labels, double *value)
{
    double *row = b + (ptrdiff_t)(length - 1) * ld, bad[8] = {0, 0, 0, 0, 0, 0, 0, 0}, ignored;
    int label;
    theta += (ptrdiff_t)(length - 1) * K;
    memcpy(row, end, ld * sizeof(double));
    pb_add_scores(K, theta, row, bad);
    for (int t = length - 2; t >= 0; t--) {
        theta -= K;
        row -= ld;
        for (int k = 0; k < K; k += 8)
            PB_PREFETCH(theta + k - PB_CHAIN_AHEAD * K);
        pb_max_row(K, ld, row + ld, columns, row);
        pb_add_scores(K, theta, row, bad);
    }
    if (pb_row_sum(8, bad) > 0.0)
        return 0;
    label = pb_argmax_row(K, ld, start, row, value);
    labels[0] = label;
    for (int t = 1; t < length; t++) {
        row += ld;
        label = pb_argmax_row(K, ld, rows + (ptrdiff_t)label * ld, row, &ignored);
        labels[t] = label;
    }
    return 1;
}
PB_CLONES(int, return, pb_viterbi,
          (int length, int K, int ld, const double *theta, const double *rows, const double *columns,
           const double *start, const double *end, double *b, int32_t *labels, double *value),
          (length, K, ld, theta, rows, columns, start, end, b, labels, value))

/* y = exp(x) for 8 numbers x <= 0, relative error about 2^-52, 0 below -700: Taylor series of degree 13 for
 * |r| <= log(2) / 2, times a power of 2. In stages, as GCC does not vectorise one loop of double and int64. */
PB_INLINE void pb_exp_lanes(const double *PB_RESTRICT x, double *PB_RESTRICT y)
{
    double n[8], power[8];
    int64_t bits[8];
    PB_LANES(l, 8) n[l] = rint((x[l] > -700.0 ? x[l] : -700.0) * 1.4426950408889634);
    PB_LANES(l, 8) bits[l] = (int64_t)((int32_t)n[l] + 1023) << 52;
    memcpy(power, bits, sizeof power);
    PB_LANES(l, 8)
    {
        const double low = x[l] > -700.0 ? x[l] : -700.0;
        const double r = (low - n[l] * 0x1.62e42fefa0000p-1) - n[l] * 0x1.cf79abc9e3b3ap-40;
        double e = 1.0 / 6227020800.0;
        e = e * r + 1.0 / 479001600.0;
        e = e * r + 1.0 / 39916800.0;
        e = e * r + 1.0 / 3628800.0;
        e = e * r + 1.0 / 362880.0;
        e = e * r + 1.0 / 40320.0;
        e = e * r + 1.0 / 5040.0;
        e = e * r + 1.0 / 720.0;
        e = e * r + 1.0 / 120.0;
        e = e * r + 1.0 / 24.0;
        e = e * r + 1.0 / 6.0;
        e = e * r + 0.5;
        e = e * r + 1.0;
        e = e * r + 1.0;
        y[l] = x[l] > -700.0 ? e * power[l] : 0.0;
    }
}

PB_INLINE double pb_row_dot(int ld, const double *a, const double *b)
{
    double sum[8];
    PB_LANES(l, 8) sum[l] = a[l] * b[l];
    for (int j = 8; j < ld; j += 8)
        PB_LANES(l, 8) sum[l] += a[j + l] * b[j + l];
    return ((sum[0] + sum[4]) + (sum[2] + sum[6])) + ((sum[1] + sum[5]) + (sum[3] + sum[7]));
}

PB_INLINE double pb_row_max(int ld, const double *a)
{
    double top[8];
    PB_LANES(l, 8) top[l] = a[l];
    for (int j = 8; j < ld; j += 8)
        PB_LANES(l, 8) top[l] = a[j + l] > top[l] ? a[j + l] : top[l];
    for (int half = 4; half; half /= 2)
        for (int l = 0; l < half; l++)
            top[l] = top[l] > top[l + half] ? top[l] : top[l + half];
    return top[0];
}

/* Sets x_t = theta_t + boundaries - max, padded with -inf; `total` to the sum of the maxima; `spread` to the largest
 * |x|, except where a boundary of -inf forbids a label. Returns 0 if a score is NaN or +inf. */
PB_INLINE int pb_chain_scores_body(int length, int K, int ld, const double *theta, const double *start,
                                   const double *end, double *PB_RESTRICT x, double *total, double *spread)
{
    double bad[8] = {0, 0, 0, 0, 0, 0, 0, 0}, low[8] = {0, 0, 0, 0, 0, 0, 0, 0}, sum = 0.0;
    for (int t = 0; t < length; t++, theta += K, x += ld) {
        double high;
        for (int k = 0; k < K; k += 8)
            PB_PREFETCH(theta + k - PB_CHAIN_AHEAD * K);
        for (int k = 0; k < ld; k++)
            x[k] = k < K ? 0.0 : -INFINITY;
        for (int k = 0; k < K && t == 0; k++)
            x[k] += start[k];
        for (int k = 0; k < K && t == length - 1; k++)
            x[k] += end[k];
        pb_add_scores(K, theta, x, bad);
        high = pb_row_max(ld, x);
        sum += high;
        for (int k = 0; k < ld; k++)
            x[k] -= high;
        if (t == 0 || t == length - 1) {
            for (int k = 0; k < K; k++)
                if (x[k] < low[0] && !(theta[k] > -INFINITY && x[k] == -INFINITY))
                    low[0] = x[k];
            continue;
        }
        for (int k = 0; k + 8 <= K; k += 8)
            PB_LANES(l, 8) low[l] = x[k + l] < low[l] ? x[k + l] : low[l];
        for (int k = K - K % 8; k < K; k++)
            low[0] = x[k] < low[0] ? x[k] : low[0];
    }
    *total = sum;
    for (int l = 1; l < 8; l++)
        low[0] = low[l] < low[0] ? low[l] : low[0];
    *spread = -low[0];
    return pb_row_sum(8, bad) == 0.0;
}
PB_CLONES(int, return, pb_chain_scores,
          (int length, int K, int ld, const double *theta, const double *start, const double *end, double *x,
           double *total, double *spread),
          (length, K, ld, theta, start, end, x, total, spread))

/* Forward-backward with scaled probabilities (Rabiner 1989, V.A), for scores of a bounded spread.
 *
 *   u_t = exp(x_t),  E = exp(T - max T),
 *   p_t = u_t * (p_{t-1} E) / c_t with sum 1,  v_t = u_t * b_t / z_t,  b_{t-1} = E v_t with <p_{t-1}, b_{t-1}> = 1.
 *
 * P(y_t = k) = p_t(k) b_t(k) and P(y_{t-1} = j, y_t = k) = p_{t-1}(j) E(j, k) v_t(k). If |x_t| plus the spread of
 * T is at most 300, p, b and their products stay above exp(-700). Then nothing underflows, all terms are positive, and
 * every marginal has a relative error of at most PB_CHAIN_TERMS(length, K) 2^-53: a position adds a sum of K terms, a
 * norm and some products to the forward and to the backward pass, and the norms double the errors of both.
 *
 * Forbidden transitions and boundaries are exact zeros. If m steps lead from any label to any label, p_t(k) is 0, or at
 * least the weight of a path of at most m steps from the largest p_{t-m}, over a norm of at most K^m; so m times the
 * spreads may be at most 300.
 *
 * P is the distribution of the computed factors u and E, so that rounding of the scores before does not matter. As
 * log u = x and log E = T - max T up to 4 2^-53, its entropy is
 *   sum_t log c_t - sum_t E_P x_t - sum_t E_P (T - max T),
 * up to an error of at most PB_CHAIN_TERMS 2^-53 (1 + sum of the absolute values).
 *   forward (K, ld): E;  backward: E';  deviations: the transpose of E * (max T - T);  all padded with 0
 *   x (length, ld): scores of pb_chain_scores;  p, v (length, ld): receive p and `weight` v, with v_0 = 0
 *   row (2, ld): scratch;  unary (length, K): receives P(y_t = k)
 *   entropy (2,): receives the entropy and a bound on its error; may be NULL
 * Returns log sum_y exp(score) minus the maxima of scores and transitions; -inf if all labellings are forbidden. */
#define PB_CHAIN_TERMS(length, K) ((length) * (6.0 * (K) + 40.0))

PB_INLINE double pb_forward_backward_body(int length, int K, int ld, const double *x, const double *forward,
                                          const double *backward, const double *deviations, double weight,
                                          double *PB_RESTRICT p, double *PB_RESTRICT v, double *PB_RESTRICT row,
                                          double *PB_RESTRICT unary, double *entropy)
{
    double log_partition = 0.0, sizes = 1.0, sum = 0.0, log_z, z, *spare = row + ld;
    for (int t = 0; t < length; t++, x += ld, p += ld, v += ld) {
        for (int k = 0; k < ld; k += 8)
            pb_exp_lanes(x + k, v + k);
        if (t > 0) {
            pb_sum_row(K, ld, p - ld, forward, p);
            for (int k = 0; k < ld; k++)
                p[k] *= v[k];
        } else
            memcpy(p, v, ld * sizeof(double));
        z = pb_row_sum(ld, p);
        if (!(z > 0.0))
            return -INFINITY;
        log_z = log(z);
        log_partition += log_z;
        sizes += fabs(log_z);
        z = 1.0 / z;
        for (int k = 0; k < ld; k++)
            p[k] *= z;
    }
    for (int k = 0; k < ld; k++)
        row[k] = k < K ? 1.0 : 0.0;
    unary += (ptrdiff_t)length * K;
    for (int t = length - 1; t >= 0; t--) {
        x -= ld, p -= ld, v -= ld, unary -= K;
        for (int k = 0; k < K; k++)
            unary[k] = p[k] * row[k];
        if (entropy)
            for (int k = 0; k < K; k++)
                sum -= unary[k] > 0.0 ? unary[k] * x[k] : 0.0;
        if (t == 0)
            break;
        for (int k = 0; k < ld; k++)
            v[k] *= row[k];
        pb_sum_row(K, ld, v, backward, row);
        z = 1.0 / pb_row_dot(ld, row, p - ld);
        for (int k = 0; k < ld; k++)
            row[k] *= z;
        for (int k = 0; k < ld; k++)
            v[k] *= z;
        if (entropy) {
            pb_sum_row(K, ld, v, deviations, spare);
            sum += pb_row_dot(ld, spare, p - ld);
        }
        for (int k = 0; k < ld; k++)
            v[k] *= weight;
    }
    memset(v, 0, ld * sizeof(double));
    if (entropy) {
        entropy[0] = log_partition + sum > 0.0 ? log_partition + sum : 0.0;
        entropy[1] = PB_CHAIN_TERMS(length, K) * 0x1p-53 * (sizes + sum);
    }
    return log_partition;
}
PB_CLONES(double, return, pb_forward_backward,
          (int length, int K, int ld, const double *x, const double *forward, const double *backward,
           const double *deviations, double weight, double *p, double *v, double *row, double *unary,
           double *entropy),
          (length, K, ld, x, forward, backward, deviations, weight, p, v, row, unary, entropy))

/* The factors of one transition matrix (K, K) as pb_forward_backward wants them: rows = T - max T padded with -inf,
 * forward = exp(rows), its transpose, and the transpose of -rows * forward, padded with 0. `mask` (K, K), 0 or -inf, is
 * added to T; it may be NULL. Returns the spread of the entries of T above -inf. */
PB_INLINE double pb_chain_factors_body(int K, int ld, const double *PB_RESTRICT transition, const double *mask,
                                       double *PB_RESTRICT rows, double *PB_RESTRICT forward,
                                       double *PB_RESTRICT backward, double *PB_RESTRICT deviations, double *top)
{
    double high = -INFINITY, low = INFINITY;
    for (int j = 0; j < K; j++)
        for (int k = 0; k < K; k++) {
            const double score = transition[j * K + k] + (mask ? mask[j * K + k] : 0.0);
            rows[(ptrdiff_t)j * ld + k] = score;
            high = score > high ? score : high;
            low = score > -INFINITY && score < low ? score : low;
        }
    *top = high;
    if (!(high > -INFINITY))
        return 0.0;
    for (int j = 0; j < K; j++, rows += ld, forward += ld) {
        for (int k = 0; k < ld; k++)
            rows[k] = k < K ? rows[k] - high : -INFINITY;
        for (int k = 0; k < ld; k += 8)
            pb_exp_lanes(rows + k, forward + k);
        for (int k = 0; k < K; k++) {
            backward[(ptrdiff_t)k * ld + j] = forward[k];
            deviations[(ptrdiff_t)k * ld + j] = forward[k] > 0.0 ? -rows[k] * forward[k] : 0.0;
        }
    }
    return high - low;
}
PB_CLONES(double, return, pb_chain_factors,
          (int K, int ld, const double *transition, const double *mask, double *rows, double *forward,
           double *backward, double *deviations, double *top),
          (K, ld, transition, mask, rows, forward, backward, deviations, top))

enum { PB_CHAIN_CHUNK = 64 }; /* rows of p and v that stay in the first cache */

/* sums[j, k] += sum_n p_n(j) v_{n+1}(k) over the rows of a shard, 4 x 8 sums at a time in registers;
 * sums (ld, ld) */
PB_INLINE void pb_pair_sums_body(ptrdiff_t n_rows, int ld, const double *p, const double *v, double *sums)
{
    for (ptrdiff_t first = 0; first + 1 < n_rows; first += PB_CHAIN_CHUNK) {
        const ptrdiff_t rest = n_rows - 1 - first, count = rest < PB_CHAIN_CHUNK ? rest : PB_CHAIN_CHUNK;
        for (int j = 0; j < ld; j += 4)
            for (int k = 0; k < ld; k += 8) {
                const double *left = p + first * ld + j, *right = v + (first + 1) * ld + k;
                double a[8], b[8], c[8], d[8], *sum = sums + (ptrdiff_t)j * ld + k;
                PB_LANES(l, 8) a[l] = b[l] = c[l] = d[l] = 0.0;
                for (ptrdiff_t n = 0; n < count; n++, left += ld, right += ld)
                    PB_LANES(l, 8)
                    {
                        a[l] += left[0] * right[l];
                        b[l] += left[1] * right[l];
                        c[l] += left[2] * right[l];
                        d[l] += left[3] * right[l];
                    }
                PB_LANES(l, 8)
                {
                    sum[l] += a[l];
                    sum[ld + l] += b[l];
                    sum[2 * ld + l] += c[l];
                    sum[3 * ld + l] += d[l];
                }
            }
    }
}
PB_CLONES(void, , pb_pair_sums,
          (ptrdiff_t n_rows, int ld, const double *p, const double *v, double *sums),
          (n_rows, ld, p, v, sums))

/* pairs[t, j, k] = p_t(j) E(j, k) v_{t+1}(k) */
static void pb_pairs(int length, int K, int ld, const double *p, const double *v, const double *forward, double *pairs)
{
    for (int t = 0; t + 1 < length; t++, p += ld, v += ld)
        for (int j = 0; j < K; j++, pairs += K)
            for (int k = 0; k < K; k++)
                pairs[k] = p[j] * forward[(ptrdiff_t)j * ld + k] * v[ld + k];
}

/* log sum_k exp(a[k] + b[k]); -inf if every a[k] + b[k] is -inf */
static double pb_log_sum(int K, const double *a, const double *b)
{
    double high = -INFINITY, sum = 0.0;
    for (int k = 0; k < K; k++)
        high = a[k] + b[k] > high ? a[k] + b[k] : high;
    if (high == -INFINITY)
        return high;
    for (int k = 0; k < K; k++)
        sum += exp(a[k] + b[k] - high);
    return high + log(sum);
}

/* Sets P = exp(a + b) / sum exp(a + b) and returns its entropy. No a + b may be +inf, and one must exceed -inf.
 *
 * The entropy is a sum of terms >= 0, so its relative error is that of 2 K + 16 roundings. Terms below exp(-700), for
 * which exp is inaccurate, are set to 0. */
static double pb_soft_max(int K, const double *a, const double *b, double *P)
{
    double high = -INFINITY, rest = 0.0, expected = 0.0;
    int best = 0;
    for (int k = 0; k < K; k++)
        if (a[k] + b[k] > high) {
            high = a[k] + b[k];
            best = k;
        }
    for (int k = 0; k < K; k++) {
        const double s = a[k] + b[k] - high;
        P[k] = s >= -700.0 ? exp(s) : 0.0;
        if (k != best && P[k] > 0.0) {
            rest += P[k];
            expected -= P[k] * s;
        }
    }
    for (int k = 0; k < K; k++)
        P[k] /= 1.0 + rest;
    return log1p(rest) + expected / (1.0 + rest);
}

/* Forward-backward for any scores: logarithms from the right, then conditional probabilities from the left, 2 K^2
 * exponentials a position.
 *
 *   g_t(k) = x_t(k) + b_t(k),   b_{t-1}(j) = log sum_k exp(T(j, k) + g_t(k)) - z_t,
 *   P(y_t = k | y_{t-1} = j) = exp(T(j, k) + g_t(k)) / sum over k
 *
 * The marginals and the entropy, sum_t sum_j P(y_{t-1} = j) H(y_t | y_{t-1} = j), belong to the Markov chain of the
 * computed conditionals, each divided by its own sum; rounding of g does not matter. They are sums of terms >= 0, so
 * their relative errors are at most PB_CHAIN_TERMS 2^-53.
 *   rows (K, ld): T minus max T;  g (length, ld), row (2, ld): scratch
 *   pairs: weight * pairwise marginals are added, position t at pairs + t * step */
static double pb_forward_backward_log(int length, int K, int ld, const double *x, const double *rows, double weight,
                                      double *g, double *row, double *unary, double *pairs, ptrdiff_t step,
                                      double *entropy)
{
    double log_partition = 0.0, sum, z, *spare = row + ld;
    for (int k = 0; k < K; k++)
        row[k] = spare[k] = 0.0;
    for (int t = length - 1; t >= 0; t--) {
        double *g_t = g + (ptrdiff_t)t * ld;
        for (int k = 0; k < K; k++)
            g_t[k] = x[(ptrdiff_t)t * ld + k] + row[k];
        for (int j = 0; j < K && t > 0; j++)
            row[j] = pb_log_sum(K, rows + (ptrdiff_t)j * ld, g_t);
        z = t > 0 ? row[0] : pb_log_sum(K, g_t, spare);
        for (int j = 1; j < K && t > 0; j++)
            z = row[j] > z ? row[j] : z;
        log_partition += z;
        if (!(z > -INFINITY))
            return z;
        for (int j = 0; j < K; j++)
            row[j] -= z;
    }
    sum = pb_soft_max(K, g, spare, unary);
    for (int t = 1; t < length; t++, unary += K, pairs += step) {
        g += ld;
        for (int k = 0; k < K; k++)
            unary[K + k] = 0.0;
        for (int j = 0; j < K; j++) {
            if (!(unary[j] > 0.0))
                continue;
            sum += unary[j] * pb_soft_max(K, rows + (ptrdiff_t)j * ld, g, spare);
            for (int k = 0; k < K; k++) {
                const double P = unary[j] * spare[k];
                unary[K + k] += P;
                pairs[(ptrdiff_t)j * K + k] += weight * P;
            }
        }
    }
    if (entropy) {
        entropy[0] = sum;
        entropy[1] = PB_CHAIN_TERMS(length, K) * 0x1p-53 * sum;
    }
    return log_partition;
}

#endif
