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

typedef union {
    double x[8];
    uint64_t bits[8];
} pb_eight;

/* y = log(x) for 8 numbers x > 1e-290, error about 1e-14: x = 2^e m, log(m) = 2 artanh((m - 1) / (m + 1)) */
PB_INLINE void pb_log_lanes(const double *from, double *PB_RESTRICT y)
{
    pb_eight x, e, m;
    PB_LANES(l, 8) x.x[l] = from[l] + 1e-300;
    PB_LANES(l, 8) e.bits[l] = (x.bits[l] - 0x3fe6a09e667f3bcdu + 0x3ff0000000000000u) >> 52;
    PB_LANES(l, 8) m.bits[l] = x.bits[l] - (e.bits[l] << 52) + 0x3ff0000000000000u;
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

/* Replaces x by exp((x - max x) / T), and returns max x. */
PB_INLINE double pb_soft_row(int size, double inverse, double *x)
{
    const double top = pb_row_max(size, x);
    for (int k = 0; k < size; k += 8) {
        double y[8];
        PB_LANES(l, 8) y[l] = (x[k + l] - top) * inverse;
        pb_exp_lanes(y, x + k);
    }
    return top;
}

/* Sets x and E from the beliefs and d of a sweep that went back. */
PB_INLINE void pb_absorb_lanes(const pb_graph *g, int width)
{
    const int K = g->K;
    const ptrdiff_t size = (ptrdiff_t)K * width;
    const double inverse = 1.0 / g->temperature;
    for (int i = 0; i < g->n_order; i++) {
        const int s = g->order[i];
        for (int j = g->first[s]; j < g->first[s + 1]; j++) {
            const double *belief = PB_AT(g->belief, s, width), *d = PB_AT(g->d, g->arcs[j], width);
            double *x = PB_AT(g->x, g->arcs[j], width);
            for (int k = 0; k < width; k += 8)      /* at later nodes d holds the difference already */
                PB_LANES(l, 8) x[k + l] = j < g->middle[s] ? -d[k + l] : belief[k + l] - d[k + l];
        }
    }
    for (int i = 0; i < g->n_order; i++)
        for (int j = g->middle[g->order[i]]; j < g->first[g->order[i] + 1]; j++) {
            const int e = g->arcs[j] / 2;
            const double *at_u = PB_AT(g->x, 2 * e, width), *at_v = at_u + width, *rows = pb_rows(g, width, 2 * e);
            double *E = PB_AT(g->E[0], e, size), *transposed = PB_AT(g->E[1], e, size);
            for (int k = 0; k < K; k++)
                for (int at = 0; at < width; at += 8)
                    PB_LANES(l, 8) E[k * width + at + l] = rows[k * width + at + l] + at_u[k] + at_v[at + l];
            g->peaks[e] = pb_soft_row(K * width, inverse, E);
            for (int l = 0; l < K; l++)
                pb_pad_row(K, width, E + l, width, transposed + l * width);
        }
}
PB_GRAPH_CLONES(void, , pb_absorb)

/* A soft sweep forward and back. */
PB_INLINE void pb_soft_sweep_lanes(const pb_graph *g, int width)
{
    const int K = g->K;
    const double T = g->temperature, inverse = 1.0 / T;
    for (int back = 0; back < 2; back++)
        for (int i = 0; i < g->n_order; i++) {
            const int s = g->order[back ? g->n_order - 1 - i : i];
            const double *belief = pb_collect(g, width, s);
            const int from = back ? g->first[s] : g->middle[s], to = back ? g->middle[s] : g->first[s + 1];
            for (int j = from; j < to; j++) {
                const int arc = g->arcs[j];
                double *a = g->row, *z = a + width, *hard = z + width;
                double *d = PB_AT(g->d, arc, width), *out = PB_AT(g->d, arc ^ 1, width);
                const double *x = PB_AT(g->x, arc, width), *x_out = PB_AT(g->x, arc ^ 1, width);
                for (int k = 0; k < width; k += 8)
                    PB_LANES(l, 8)
                    {
                        d[k + l] -= belief[k + l];
                        a[k + l] = -d[k + l] - x[k + l];
                    }
                double low[8] = {0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0};
                const double shift = pb_soft_row(width, inverse, a) + g->peaks[arc / 2];
                pb_sum_row(K, width, a, PB_AT(g->E[arc & 1], arc / 2, (ptrdiff_t)K * width), z);
                for (int at = 0; at < width; at += 8) {
                    double y[8];
                    pb_log_lanes(z + at, y);
                    PB_LANES(l, 8)
                    {
                        out[at + l] = T * y[l] + shift - x_out[at + l];
                        low[l] = z[at + l] < 1e-290 ? 1.0 : low[l];
                    }
                }
                if (pb_row_sum(8, low) > 0.0) {     /* z has underflowed: the soft maximum is the maximum there */
                    for (int k = 0; k < width; k++)
                        a[k] = -d[k];
                    pb_max_row(K, width, a, pb_rows(g, width, arc), hard);
                    for (int k = 0; k < width; k++)
                        out[k] = z[k] < 1e-290 ? hard[k] : out[k];
                }
                pb_normalize(width, out);
            }
        }
}
PB_GRAPH_CLONES(void, , pb_soft_sweep)

/* Divides a row by the sum of its first K entries. */
PB_INLINE void pb_scale_row(int K, int width, double *row)
{
    double sum = 0.0;
    for (int k = 0; k < K; k++)
        sum += row[k];
    for (int k = 0; k < width; k += 8)
        PB_LANES(l, 8) row[k + l] /= sum;
}

/* Sets whole numbers of sum PB_ONE near the shares p >= 0 of sum 1; the largest takes the rest. */
PB_INLINE void pb_to_grid(int K, const double *p, double *grid)
{
    double rest = PB_ONE;
    for (int k = 0; k < K; k++) {
        grid[k] = floor(p[k] * PB_ONE);
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
static void pb_label_point(const pb_graph *g, const int *labels, double *const *point)
{
    for (ptrdiff_t k = 0; k < (ptrdiff_t)g->n * g->K; k++)
        point[0][k] = 0.0;
    for (ptrdiff_t k = 0; k < (ptrdiff_t)g->m * g->K * g->K; k++)
        point[1][k] = 0.0;
    for (int v = 0; v < g->n; v++)
        PB_AT(point[0], v, g->K)[labels[v]] = PB_ONE;
    for (int e = 0; e < g->m; e++)
        PB_AT(point[1], e, (ptrdiff_t)g->K * g->K)[labels[g->ends[2 * e]] * g->K + labels[g->ends[2 * e + 1]]] = PB_ONE;
}

/* Makes the point of the beliefs; trees keep their labels. Returns its score. */
PB_INLINE double pb_make_point_lanes(const pb_graph *g, int width)
{
    const int K = g->K;
    const ptrdiff_t size = (ptrdiff_t)K * width;
    double *nodes = g->made[0], *tables = g->made[1], *shares = g->row, *sums = g->row + width;
    pb_sum score = {0.0, 0.0, 0};
    pb_label_point(g, g->trial, g->made);
    for (int i = 0; i < g->n_order; i++) {
        const int s = g->order[i];
        pb_copy_row(width, PB_AT(g->belief, s, width), shares);
        pb_soft_row(width, 1.0 / g->temperature, shares);
        pb_scale_row(K, width, shares);
        for (int j = g->first[s]; j < g->first[s + 1]; j++) {
            const int arc = g->arcs[j];
            const double *E = PB_AT(g->E[~arc & 1], arc / 2, size);
            pb_copy_row(width, E, sums);
            for (int l = 1; l < K; l++)
                pb_add_row(width, E + l * width, sums);
            pb_scale_row(K, width, sums);
            pb_add_row(width, sums, shares);
        }
        pb_scale_row(K, width, shares);
        pb_to_grid(K, shares, PB_AT(nodes, s, K));
    }
    for (int i = 0; i < g->n_order; i++)
        for (int j = g->middle[g->order[i]]; j < g->first[g->order[i] + 1]; j++) {
            const int e = g->arcs[j] / 2;
            pb_table_to_grid(K, width, PB_AT(g->E[0], e, size), PB_AT(nodes, g->ends[2 * e], K),
                             PB_AT(nodes, g->ends[2 * e + 1], K), g->row, PB_AT(tables, e, (ptrdiff_t)K * K));
        }
    for (int v = 0; v < g->n; v++)
        for (int k = 0; k < K; k++)
            pb_add(&score, *nodes++ * PB_AT(g->theta, v, width)[k]);
    for (ptrdiff_t row = 0; row < (ptrdiff_t)g->m * K; row++)
        for (int l = 0; l < K; l++)
            pb_add(&score, *tables++ * g->rows[(row / K * K + row) * width + l]);
    return (score.total + score.block) / PB_ONE;
}
PB_GRAPH_CLONES(double, return, pb_make_point)

/* Sweeps until the gap between the best point and the bound is at most tol, or `sweeps` are done. It begins warm and
 * cools when the gap of its own point and bound falls by less than a twentieth; it ends when that has not helped four
 * times at the least temperature. Points need the warm start: from 3e-4 of the scores, every tenth graph of 3-8 nodes
 * with dense tables stalled, with a bound within 1e-5 and a point 1e-2 below it. Divisors of 5 for tol took 1.5 times
 * as long on 10 x 10 grids with dense tables. */
static void pb_soft_search(pb_graph *g, double tol, int sweeps)
{
    const double least = 3e-4 * g->scale;
    double last = INFINITY;
    pb_label_point(g, g->labels, g->point);
    g->temperature = tol / 25.0 > 1e-2 * g->scale ? tol / 25.0 : 1e-2 * g->scale;
    if (!g->n_order || !(least > 1e-290) || !(g->upper - g->value > tol))
        return;
    pb_absorb(g);
    for (int done = 0, stalls = 0; done < sweeps && stalls < 4 && g->upper - g->value > tol; done += 5) {
        const double labelled = g->value;
        for (int i = 0; i < 5 && done + i < sweeps; i++)
            pb_soft_sweep(g);
        const double upper = pb_compare(g);
        if (g->value > labelled)
            pb_label_point(g, g->labels, g->point);
        pb_absorb(g);
        const double value = pb_make_point(g);
        if (value > g->value) {
            g->value = value;
            memcpy(g->point[0], g->made[0], sizeof(double) * (size_t)g->n * g->K);
            memcpy(g->point[1], g->made[1], sizeof(double) * (size_t)g->m * g->K * g->K);
        }
        if (upper - value <= 0.95 * last) {
            last = upper - value;
            continue;
        }
        stalls += g->temperature <= least;
        last = INFINITY;
        g->temperature = 0.7 * g->temperature > least ? 0.7 * g->temperature : least;
        pb_absorb(g);
    }
}

#endif
