/* The relaxed maximum over the local polytope: soft messages at a temperature, and points that are exactly consistent.
 *
 * A soft sweep replaces each max by T log sum exp(./T). With x0 = belief - d at each arc when the sweeps begin, and
 *
 *     E(k, l) = exp((table(k, l) + x0_u(k) + x0_v(l) - c) / T)
 *
 * computed once, a message costs K^2 multiplications: a = exp((x - x0_u) / T), d_v = T log(E' a) - x0_v. Normalised, E
 * is also the belief of the edge, from which a point of the polytope is made. Points are whole numbers of a grid: each
 * node sums to PB_ONE, and each table has exactly the marginals of its nodes. */
#ifndef PYBUNDLE_GRAPH_RELAXATION_H
#define PYBUNDLE_GRAPH_RELAXATION_H

#include "_graph_labeling.h"

#define PB_ONE 1073741824.0       /* 2^30 */

typedef struct {
    double *x, *belief[2];        /* (2m, width); E as the rows seen from u and from v, (m, K, width) */
    double *peaks;                /* (m,): c */
    double *nodes, *tables;       /* (n, K), (m, K, K): the best point met, in whole numbers */
    double *trial_nodes, *trial_tables;
    double temperature;
} pb_soft;

static size_t pb_soft_layout(pb_soft *f, char *memory, int K, size_t n, size_t m)
{
    const size_t width = (size_t)(K + 7) / 8 * 8;
    size_t used = 0;
#define PB_TAKE(field, count)                                    \
    f->field = (double *)(memory ? memory + used : NULL);        \
    used += ((count) * sizeof(double) + 63) / 64 * 64
    PB_TAKE(x, 2 * m * width);
    PB_TAKE(belief[0], m * (size_t)K * width);
    PB_TAKE(belief[1], m * (size_t)K * width);
    PB_TAKE(peaks, m);
    PB_TAKE(nodes, n * (size_t)K);
    PB_TAKE(tables, m * (size_t)K * (size_t)K);
    PB_TAKE(trial_nodes, n * (size_t)K);
    PB_TAKE(trial_tables, m * (size_t)K * (size_t)K);
#undef PB_TAKE
    return used;
}

typedef union {
    double x[8];
    uint64_t bits[8];
} pb_eight;

/* y = log(x) for 8 normal numbers x > 0, error about 1e-14: x = 2^e m, log(m) = 2 artanh((m - 1) / (m + 1)) */
PB_INLINE void pb_log_lanes(const pb_eight *x, double *PB_RESTRICT y)
{
    pb_eight e, m;
    PB_LANES(l, 8) e.bits[l] = (x->bits[l] - 0x3fe6a09e667f3bcdu + 0x3ff0000000000000u) >> 52;
    PB_LANES(l, 8) m.bits[l] = x->bits[l] - (e.bits[l] << 52) + 0x3ff0000000000000u;
    PB_LANES(l, 8) e.bits[l] |= 0x4330000000000000u;                /* 2^52 + exponent + 1023 */
    PB_LANES(l, 8)
    {
        const double s = (m.x[l] - 1.0) / (m.x[l] + 1.0), q = s * s;
        double p = 1.0 / 15.0;
        p = p * q + 1.0 / 13.0;
        p = p * q + 1.0 / 11.0;
        p = p * q + 1.0 / 9.0;
        p = p * q + 1.0 / 7.0;
        p = p * q + 1.0 / 5.0;
        p = p * q + 1.0 / 3.0;
        y[l] = (e.x[l] - (4503599627370496.0 + 1023.0)) * 0x1.62e42fefa39efp-1 + 2.0 * (s + s * q * p);
    }
}

/* Sets x and E from the beliefs and d of a sweep that went back. */
PB_INLINE void pb_absorb_lanes(const pb_graph *g, const pb_soft *f, int width)
{
    const double inverse = 1.0 / f->temperature;
    for (int i = 0; i < g->n_order; i++) {
        const int s = g->order[i];
        for (int j = g->first[s]; j < g->first[s + 1]; j++) {
            const double *belief = PB_AT(g->belief, s, width), *d = PB_AT(g->d, g->arcs[j], width);
            double *x = PB_AT(f->x, g->arcs[j], width);
            for (int k = 0; k < width; k += 8)      /* at later nodes d holds the difference already */
                PB_LANES(l, 8) x[k + l] = j < g->middle[s] ? -d[k + l] : belief[k + l] - d[k + l];
        }
    }
    for (int i = 0; i < g->n_order; i++)
        for (int j = g->middle[g->order[i]]; j < g->first[g->order[i] + 1]; j++) {
            const int arc = g->arcs[j];
            const double *at_u = PB_AT(f->x, arc, width), *at_v = PB_AT(f->x, arc + 1, width);
            double *E = PB_AT(f->belief[0], arc / 2, (ptrdiff_t)g->K * width);
            double *transposed = PB_AT(f->belief[1], arc / 2, (ptrdiff_t)g->K * width);
            double most[8];
            for (int k = 0; k < g->K; k++)
                for (int at = 0; at < width; at += 8) {
                    double *row = E + k * width + at;
                    PB_LANES(l, 8) row[l] = g->rows[arc][k * width + at + l] + at_u[k] + at_v[at + l];
                    if (k == 0 && at == 0)
                        PB_LANES(l, 8) most[l] = row[l];
                    PB_LANES(l, 8) most[l] = row[l] > most[l] ? row[l] : most[l];
                }
            const double top = f->peaks[arc / 2] = pb_row_max(8, most);
            for (int at = 0; at < g->K * width; at += 8) {
                double y[8];
                PB_LANES(l, 8) y[l] = (E[at + l] - top) * inverse;
                pb_exp_lanes(y, E + at);
            }
            for (int k = 0; k < width; k++)
                for (int l = 0; l < g->K; l++)
                    transposed[l * width + k] = E[(k < g->K ? k : g->K - 1) * width + l];
        }
}

/* A soft sweep forward and back. */
PB_INLINE void pb_soft_sweep_lanes(const pb_graph *g, const pb_soft *f, int width)
{
    const double T = f->temperature, inverse = 1.0 / T;
    for (int back = 0; back < 2; back++)
        for (int i = 0; i < g->n_order; i++) {
            const int s = g->order[back ? g->n_order - 1 - i : i];
            const double *belief = pb_collect(g, width, s);
            const int from = back ? g->first[s] : g->middle[s], to = back ? g->middle[s] : g->first[s + 1];
            for (int j = from; j < to; j++) {
                const int arc = g->arcs[j];
                double *a = g->row, *d = PB_AT(g->d, arc, width), *out = PB_AT(g->d, arc ^ 1, width);
                const double *x = PB_AT(f->x, arc, width), *x_out = PB_AT(f->x, arc ^ 1, width);
                const double *E = PB_AT(f->belief[arc & 1], arc / 2, (ptrdiff_t)g->K * width);
                for (int k = 0; k < width; k += 8)
                    PB_LANES(l, 8)
                    {
                        d[k + l] -= belief[k + l];
                        a[k + l] = -d[k + l] - x[k + l];
                    }
                double top = pb_row_max(width, a);
                for (int k = 0; k < width; k += 8) {
                    double y[8];
                    PB_LANES(l, 8) y[l] = (a[k + l] - top) * inverse;
                    pb_exp_lanes(y, a + k);
                }
                const double shift = top + f->peaks[arc / 2];
                for (int at = 0; at < width; at += 8) {
                    pb_eight z;
                    double y[8], least;
                    PB_LANES(l, 8) z.x[l] = a[0] * E[at + l] + 1e-300;
                    for (int k = 1; k < g->K; k++)
                        PB_LANES(l, 8) z.x[l] += a[k] * E[k * width + at + l];
                    pb_log_lanes(&z, y);
                    PB_LANES(l, 8) out[at + l] = T * y[l] + shift - x_out[at + l];
                    least = z.x[0];
                    for (int l = 1; l < 8; l++)
                        least = z.x[l] < least ? z.x[l] : least;
                    if (least < 1e-290)             /* the soft maximum is the maximum there */
                        for (int l = 0; l < 8; l++)
                            if (z.x[l] < 1e-290) {
                                out[at + l] = -INFINITY;
                                for (int k = 0; k < g->K; k++) {
                                    const double sum = g->rows[arc][k * width + at + l] - d[k];
                                    out[at + l] = sum > out[at + l] ? sum : out[at + l];
                                }
                            }
                }
                top = pb_row_max(width, out);
                for (int k = 0; k < width; k += 8)
                    PB_LANES(l, 8) out[k + l] -= top;
            }
        }
}

PB_INLINE void pb_absorb_body(const pb_graph *g, const pb_soft *f)
{
    g->width == 8 ? pb_absorb_lanes(g, f, 8) : g->width == 16 ? pb_absorb_lanes(g, f, 16)
                                                               : pb_absorb_lanes(g, f, g->width);
}
PB_CLONES(void, , pb_absorb, (const pb_graph *g, const pb_soft *f), (g, f))
PB_INLINE void pb_soft_sweep_body(const pb_graph *g, const pb_soft *f)
{
    g->width == 8 ? pb_soft_sweep_lanes(g, f, 8) : g->width == 16 ? pb_soft_sweep_lanes(g, f, 16)
                                                                   : pb_soft_sweep_lanes(g, f, g->width);
}
PB_CLONES(void, , pb_soft_sweep, (const pb_graph *g, const pb_soft *f), (g, f))

/* Sets whole numbers of sum PB_ONE near the shares p >= 0; the largest takes the rest. */
PB_INLINE void pb_to_grid(int K, const double *p, double *grid)
{
    double sum = 0.0, rest = PB_ONE;
    for (int k = 0; k < K; k++)
        sum += p[k];
    for (int k = 0; k < K; k++) {
        grid[k] = floor(p[k] / sum * PB_ONE);
        rest -= grid[k];
    }
    grid[pb_first_best(K, grid)] += rest;
}

/* Sets a table of whole numbers with exactly the marginals r and c, near E: one round of scaling, whole parts, and the
 * north-west corner rule for what is left. All numbers are below 2^53, so sums are exact. */
PB_INLINE void pb_table_to_grid(int K, int width, const double *E, const double *r, const double *c, double *left,
                             double *grid)
{
    double *columns = left + width;
    for (int l = 0; l < K; l++)
        columns[l] = 0.0;
    for (int k = 0; k < K; k++) {
        double sum = 0.0;
        for (int l = 0; l < K; l++)
            sum += E[k * width + l];
        const double factor = sum > 1e-290 ? r[k] / sum : 0.0;
        for (int l = 0; l < K; l++) {
            grid[k * K + l] = E[k * width + l] * factor;
            columns[l] += grid[k * K + l];
        }
    }
    for (int l = 0; l < K; l++) {
        left[l] = columns[l] > c[l] ? c[l] / columns[l] : 1.0;
        columns[l] = c[l];
    }
    for (int k = 0; k < K; k++)
        for (int l = 0; l < K; l++) {
            const double whole = floor(grid[k * K + l] * left[l]);
            grid[k * K + l] = whole;
            columns[l] -= whole;
        }
    for (int k = 0, l = 0; k < K; k++) {
        double row = r[k];
        for (int j = 0; j < K; j++)
            row -= grid[k * K + j];
        while (row > 0.0 && l < K) {
            const double part = row < columns[l] ? row : columns[l];
            grid[k * K + l] += part;
            row -= part;
            columns[l] -= part;
            if (columns[l] == 0.0)
                l++;
        }
    }
}

/* The point of a labelling, in whole numbers */
static void pb_label_point(const pb_graph *g, const int *labels, double *nodes, double *tables)
{
    memset(nodes, 0, sizeof(double) * (size_t)g->n * g->K);
    memset(tables, 0, sizeof(double) * (size_t)g->m * g->K * g->K);
    for (int v = 0; v < g->n; v++)
        PB_AT(nodes, v, g->K)[labels[v]] = PB_ONE;
    for (int e = 0; e < g->m; e++)
        PB_AT(tables, e, (ptrdiff_t)g->K * g->K)[labels[g->ends[2 * e]] * g->K + labels[g->ends[2 * e + 1]]] = PB_ONE;
}

/* Makes the point of the beliefs; trees keep their labels. Returns its score. */
PB_INLINE double pb_belief_point_body(const pb_graph *g, const pb_soft *f, const int *labels)
{
    const int K = g->K, width = g->width;
    const ptrdiff_t size = (ptrdiff_t)K * K;
    double *nodes = f->trial_nodes, *tables = f->trial_tables, *sums = g->row;
    pb_block_sum score = {0.0, 0.0, 0};
    pb_label_point(g, labels, nodes, tables);
    for (int i = 0; i < g->n_order; i++) {
        const int s = g->order[i];
        const double *belief = PB_AT(g->belief, s, width);
        double *p = PB_AT(nodes, s, K), total = 0.0;
        const double top = pb_row_max(width, belief);
        for (int k = 0; k < K; k++)
            total += p[k] = exp((belief[k] - top) / f->temperature);
        for (int k = 0; k < K; k++)
            p[k] /= total;
        for (int j = g->first[s]; j < g->first[s + 1]; j++) {
            const int arc = g->arcs[j];
            const double *E = PB_AT(f->belief[~arc & 1], arc / 2, (ptrdiff_t)K * width);
            total = 0.0;
            pb_copy_row(width, E, sums);
            for (int l = 1; l < K; l++)
                pb_add_row(width, E + l * width, sums);
            for (int k = 0; k < K; k++)
                total += sums[k];
            for (int k = 0; k < K; k++)
                p[k] += sums[k] / total;
        }
        for (int k = 0; k < K; k++)
            sums[k] = p[k];
        pb_to_grid(K, sums, p);
    }
    for (int i = 0; i < g->n_order; i++)
        for (int j = g->middle[g->order[i]]; j < g->first[g->order[i] + 1]; j++) {
            const int arc = g->arcs[j];
            pb_table_to_grid(K, width, PB_AT(f->belief[0], arc / 2, (ptrdiff_t)K * width),
                             PB_AT(nodes, g->ends[arc], K), PB_AT(nodes, g->ends[arc + 1], K), g->row,
                             PB_AT(tables, arc / 2, size));
        }
    for (int v = 0; v < g->n; v++)
        for (int k = 0; k < K; k++)
            pb_block_add(&score, PB_AT(nodes, v, K)[k] * PB_AT(g->theta, v, width)[k]);
    for (int e = 0; e < g->m; e++)
        for (int k = 0; k < K; k++)
            for (int l = 0; l < K; l++)
                pb_block_add(&score, PB_AT(tables, e, size)[k * K + l] * g->rows[2 * e][k * width + l]);
    return (score.total + score.block) / PB_ONE;
}
PB_CLONES(double, return, pb_belief_point, (const pb_graph *g, const pb_soft *f, const int *labels), (g, f, labels))

/* Sweeps until the gap between the best point and the bound is at most tol, or `sweeps` are done. It begins warm and
 * cools when the gap of its own point and bound falls by less than a twentieth; it ends when that has not helped four
 * times at the least temperature. Points need the warm start: from 3e-4 of the scores, every tenth graph of 3-8 nodes
 * with dense tables stalled, with a bound within 1e-5 and a point 1e-2 below it. Divisors of 5 for tol took 1.5 times
 * as long on 10 x 10 grids with dense tables. */
static void pb_soft_search(const pb_graph *g, pb_soft *f, pb_search *best, double tol, int sweeps)
{
    const double least = 3e-4 * g->scale;
    double last = INFINITY;
    pb_label_point(g, best->labels, f->nodes, f->tables);
    f->temperature = tol / 25.0 > 1e-2 * g->scale ? tol / 25.0 : 1e-2 * g->scale;
    if (!g->n_order || !(least > 1e-290) || !(best->upper - best->value > tol))
        return;
    pb_absorb(g, f);
    for (int done = 0, stalls = 0; done < sweeps && stalls < 4 && best->upper - best->value > tol; done += 5) {
        const double labelled = best->value;
        for (int i = 0; i < 5 && done + i < sweeps; i++)
            pb_soft_sweep(g, f);
        const double upper = pb_compare(g, best);
        if (best->value > labelled)
            pb_label_point(g, best->labels, f->nodes, f->tables);
        pb_absorb(g, f);
        const double value = pb_belief_point(g, f, best->trial);
        if (value > best->value) {
            double *nodes = f->nodes, *tables = f->tables;
            best->value = value;
            f->nodes = f->trial_nodes;
            f->tables = f->trial_tables;
            f->trial_nodes = nodes;
            f->trial_tables = tables;
        }
        if (upper - value <= 0.95 * last) {
            last = upper - value;
            continue;
        }
        stalls += f->temperature <= least;
        last = INFINITY;
        f->temperature = 0.7 * f->temperature > least ? 0.7 * f->temperature : least;
        pb_absorb(g, f);
    }
}

/* Stores the best point as shares, and its score from the arguments. */
static void pb_store_point(const pb_graph *g, const pb_soft *f, const pb_scores *s, double *nodes, double *tables,
                           double *value)
{
    const int K = s->K;
    pb_block_sum score = {0.0, 0.0, 0};
    for (ptrdiff_t i = 0; i < (ptrdiff_t)s->n * K; i++) {
        nodes[i] = f->nodes[i] / PB_ONE;
        pb_block_add(&score, nodes[i] * s->unaries[i]);
    }
    for (int e = 0; e < s->m; e++) {
        const double *from = PB_AT(f->tables, g->merged[e] >> 1, (ptrdiff_t)K * K);
        const double *scores = s->tables + (s->shared ? 0 : (ptrdiff_t)e * K * K);
        for (int k = 0; k < K; k++)
            for (int l = 0; l < K; l++, tables++) {
                *tables = (g->merged[e] & 1 ? from[l * K + k] : from[k * K + l]) / PB_ONE;
                pb_block_add(&score, *tables * scores[k * K + l]);
            }
    }
    *value = score.total + score.block;
}

#endif
