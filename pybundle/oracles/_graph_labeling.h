/* Labels on a graph: dynamic programming on trees, sequential reweighted messages elsewhere, and the dual bound.
 *
 * The state is a dual point d, a vector d[arc] for each end of each edge. For every d, all scores are at most
 *
 *     D(d) = sum_s max_k [theta_s(k) + sum_{arcs at s} d[arc](k)]
 *            + sum_e max_kl [table_e(k, l) - d[e, u](k) - d[e, v](l)],
 *
 * so pb_bound needs to count its own rounding only, whatever has happened to d before.
 *
 * Rows have `width` entries, K rounded up to a multiple of 8; the entries behind label K - 1 are copies of its entry.
 * Maxima may run over all of them, and no loop needs a special case. */
#ifndef PYBUNDLE_GRAPH_LABELING_H
#define PYBUNDLE_GRAPH_LABELING_H

#include <float.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "_chain.h"
#include "_graphcut.h"

#define PB_AT(array, i, width) ((array) + (ptrdiff_t)(i) * (width))

/* A graph without parallel edges, and the state of its search. Arc 2e is at the first end of edge e, arc 2e + 1 at the
 * second. */
typedef struct {
    int K, width, n, m;
    const int64_t *ends;          /* (m, 2) */
    int *first, *middle;          /* arcs at s to earlier nodes: first[s] ..., to later ones: middle[s] ... */
    int *arcs;                    /* (2m,) */
    int *order, n_order;          /* nodes that are in no tree, ascending */
    int *queue, *parent;          /* nodes in breadth-first order; arc at the node to its parent, -1, or -2 unvisited */
    double *theta;                /* (n, width) */
    double *rows;                 /* (2m, K, width): row k has the scores of the labels at the other end if k is here */
    double *gamma;                /* 1 / max(number of earlier, of later neighbours) */
    double *d, *best_d;           /* (2m, width) */
    double *belief;               /* (n, width): gamma (theta + sum of messages) at the last visit */
    double *row;                  /* (4, width) scratch */
    double sizes;                 /* sum over tables of their largest |score| */
    double scale;                 /* mean half range of unaries and tables */
    int *labels, *trial;          /* (n,): the best labelling met, and that of d */
    double value, upper;          /* the best met */
    /* only of points, see _graph_relaxation.h */
    double *x, *E[2];             /* (2m, width); (m, K, width): E as the rows seen from both ends */
    double *peaks;                /* (m,): c */
    double *point[2], *made[2];   /* (n, K) and (m, K, K): the best point met, and one on trial */
    double temperature;
} pb_graph;

/* Splits `memory` among the arrays of graphs of at most n nodes and m edges; returns the bytes needed. */
static size_t pb_graph_layout(pb_graph *g, char *memory, int K, size_t n, size_t m, int points)
{
    const size_t width = (size_t)(K + 7) / 8 * 8, size = (size_t)K * width;
    size_t used = 0;
    g->K = K;
    g->width = (int)width;
#define PB_TAKE(field, count)                                           \
    g->field = (void *)(memory ? memory + used : NULL);                 \
    used += ((count) * sizeof *g->field + 63) / 64 * 64
    PB_TAKE(theta, n * width);
    PB_TAKE(belief, n * width);
    PB_TAKE(d, 2 * m * width);
    PB_TAKE(best_d, 2 * m * width);
    PB_TAKE(rows, 2 * m * size);
    PB_TAKE(row, 4 * width);
    PB_TAKE(gamma, n);
    PB_TAKE(first, n + 1);
    PB_TAKE(middle, n);
    PB_TAKE(arcs, 2 * m);
    PB_TAKE(order, n);
    PB_TAKE(queue, n);
    PB_TAKE(parent, n);
    PB_TAKE(labels, n);
    PB_TAKE(trial, n);
    if (points) {
        PB_TAKE(x, 2 * m * width);
        PB_TAKE(E[0], m * size);
        PB_TAKE(E[1], m * size);
        PB_TAKE(peaks, m);
        PB_TAKE(made[0], n * (size_t)K);
        PB_TAKE(made[1], m * (size_t)K * (size_t)K);
    }
#undef PB_TAKE
    return used;
}

/* to = K entries of a row, `step` apart, padded */
PB_INLINE void pb_pad_row(int K, int width, const double *from, int step, double *to)
{
    for (int k = 0; k < K; k++)
        to[k] = from[(ptrdiff_t)k * step];
    for (int k = K; k < width; k++)
        to[k] = to[K - 1];
}

/* Returns the range of `size` padded entries, and sets the largest |entry|. */
PB_INLINE double pb_range(int size, const double *row, double *most)
{
    double low[8], high[8];
    PB_LANES(l, 8) low[l] = high[l] = row[l];
    for (int k = 8; k < size; k += 8)
        PB_LANES(l, 8)
        {
            low[l] = row[k + l] < low[l] ? row[k + l] : low[l];
            high[l] = row[k + l] > high[l] ? row[k + l] : high[l];
        }
    PB_LANES(l, 8) low[l] = -low[l];
    const double least = -pb_row_max(8, low), top = pb_row_max(8, high);
    *most = -least > top ? -least : top;
    return top - least;
}

static void pb_sort_arcs(pb_graph *g)
{
    int *earlier = g->queue, *later = g->parent;
    memset(g->first, 0, sizeof(int) * ((size_t)g->n + 1));
    memset(earlier, 0, sizeof(int) * (size_t)g->n);
    for (int a = 0; a < 2 * g->m; a++) {
        g->first[g->ends[a] + 1]++;
        earlier[g->ends[a]] += g->ends[a ^ 1] < g->ends[a];
    }
    for (int v = 0; v < g->n; v++) {
        const int n_earlier = earlier[v], n_later = g->first[v + 1] - n_earlier;
        g->gamma[v] = 1.0 / (n_earlier > n_later ? n_earlier : n_later > 0 ? n_later : 1);
        g->first[v + 1] += g->first[v];
        earlier[v] = g->first[v];
        later[v] = g->middle[v] = g->first[v] + n_earlier;
    }
    for (int a = 0; a < 2 * g->m; a++)
        g->arcs[(g->ends[a ^ 1] < g->ends[a] ? earlier : later)[g->ends[a]]++] = a;
}

/* Sets arcs, rows and d of a graph with n nodes and m edges; tables are `step` apart, 0 if all edges share one. */
PB_INLINE void pb_graph_load_body(pb_graph *g, const double *unaries, const double *tables, ptrdiff_t step,
                                  const double *messages)
{
    const int K = g->K, width = g->width;
    double ranges = 0.0, most;
    pb_sort_arcs(g);
    g->sizes = 0.0;
    for (int v = 0; v < g->n; v++) {
        pb_pad_row(K, width, PB_AT(unaries, v, K), 1, PB_AT(g->theta, v, width));
        ranges += pb_range(width, PB_AT(g->theta, v, width), &most);
    }
    for (int e = 0; e < g->m; e++) {
        double *rows = PB_AT(g->rows, e, 2 * (ptrdiff_t)K * width);
        for (int k = 0; k < K; k++) {
            pb_pad_row(K, width, PB_AT(tables, e, step) + k * K, 1, rows + k * width);
            pb_pad_row(K, width, PB_AT(tables, e, step) + k, K, rows + (K + k) * width);
        }
        ranges += pb_range(K * width, rows, &most);
        g->sizes += most;
    }
    g->scale = ranges / (2.0 * ((double)g->n + g->m + 1e-300));
    for (int a = 0; a < 2 * g->m; a++)
        pb_pad_row(K, width, PB_AT(messages, a, K), 1, PB_AT(g->d, a, width));
}
PB_CLONES(void, , pb_graph_load,
          (pb_graph *g, const double *unaries, const double *tables, ptrdiff_t step, const double *messages),
          (g, unaries, tables, step, messages))

/* Defines `name` from name_lanes(g, width), compiled for rows of 8 entries, which stay in registers, and for others. */
#define PB_GRAPH_CLONES(RESULT, RETURN, NAME)                                           \
    PB_INLINE RESULT NAME##_body(const pb_graph *g)                                     \
    {                                                                                   \
        RETURN g->width == 8 ? NAME##_lanes(g, 8) : NAME##_lanes(g, g->width);          \
    }                                                                                   \
    PB_CLONES(RESULT, RETURN, NAME, (const pb_graph *g), (g))

PB_INLINE double *pb_rows(const pb_graph *g, int width, int arc)
{
    return PB_AT(g->rows, arc, (ptrdiff_t)g->K * width);
}

PB_INLINE void pb_copy_row(int width, const double *from, double *to)
{
    for (int k = 0; k < width; k += 8)
        PB_LANES(l, 8) to[k + l] = from[k + l];
}

PB_INLINE void pb_add_row(int width, const double *row, double *to)
{
    for (int k = 0; k < width; k += 8)
        PB_LANES(l, 8) to[k + l] += row[k + l];
}

PB_INLINE void pb_normalize(int width, double *row)
{
    const double top = pb_row_max(width, row);
    for (int k = 0; k < width; k += 8)
        PB_LANES(l, 8) row[k + l] -= top;
}

/* Sets belief = gamma (theta + sum of d at s), where d are the messages that came in. */
PB_INLINE double *pb_collect(const pb_graph *g, int width, int s)
{
    double *belief = PB_AT(g->belief, s, width);
    pb_copy_row(width, PB_AT(g->theta, s, width), belief);
    for (int i = g->first[s]; i < g->first[s + 1]; i++)
        pb_add_row(width, PB_AT(g->d, g->arcs[i], width), belief);
    for (int k = 0; k < width; k += 8)
        PB_LANES(l, 8) belief[k + l] *= g->gamma[s];
    return belief;
}

/* A sweep forward and back [TRW-S]: node s sends x = belief - d along its arcs to later (earlier) nodes. What it keeps
 * is d = -x, so that d is a dual point, and the message that the next sweep will replace is not stored. */
PB_INLINE void pb_sweep_lanes(const pb_graph *g, int width)
{
    for (int back = 0; back < 2; back++)
        for (int i = 0; i < g->n_order; i++) {
            const int s = g->order[back ? g->n_order - 1 - i : i];
            const double *belief = pb_collect(g, width, s);
            const int from = back ? g->first[s] : g->middle[s], to = back ? g->middle[s] : g->first[s + 1];
            for (int j = from; j < to; j++) {
                const int arc = g->arcs[j];
                double *x = g->row, *d = PB_AT(g->d, arc, width), *out = PB_AT(g->d, arc ^ 1, width);
                for (int k = 0; k < width; k += 8)
                    PB_LANES(l, 8)
                    {
                        x[k + l] = belief[k + l] - d[k + l];
                        d[k + l] = -x[k + l];
                    }
                pb_max_row(g->K, width, x, pb_rows(g, width, arc), out);
                pb_normalize(width, out);
            }
        }
}
PB_GRAPH_CLONES(void, , pb_sweep)

/* D(d), and a bound on its rounding: a term of node s has as many additions as arcs, one of an edge two. */
PB_INLINE double pb_bound_lanes(const pb_graph *g, int width)
{
    pb_sum bound = {0.0, 0.0, 0}, size = {0.0, 0.0, 0};
    double *sum = g->row, *magnitude = g->row + width, *best = g->row + 2 * width;
    int degree = 2;
    for (int s = 0; s < g->n; s++) {
        pb_copy_row(width, PB_AT(g->theta, s, width), sum);
        for (int k = 0; k < width; k += 8)
            PB_LANES(l, 8) magnitude[k + l] = fabs(sum[k + l]);
        for (int i = g->first[s]; i < g->first[s + 1]; i++) {
            const double *d = PB_AT(g->d, g->arcs[i], width);
            for (int k = 0; k < width; k += 8)
                PB_LANES(l, 8)
                {
                    sum[k + l] += d[k + l];
                    magnitude[k + l] += fabs(d[k + l]);
                }
        }
        degree = g->first[s + 1] - g->first[s] > degree ? g->first[s + 1] - g->first[s] : degree;
        pb_add(&bound, pb_row_max(width, sum));
        pb_add(&size, pb_row_max(width, magnitude));
    }
    for (int e = 0; e < g->m; e++) {
        const double *at_u = PB_AT(g->d, 2 * e, width), *at_v = at_u + width;
        for (int k = 0; k < width; k += 8)
            PB_LANES(l, 8)
            {
                const double u = fabs(at_u[k + l]), v = fabs(at_v[k + l]);
                magnitude[k + l] = 2.0 * (u > v ? u : v);
                sum[k + l] = -at_u[k + l];
            }
        pb_max_row(g->K, width, sum, pb_rows(g, width, 2 * e), best);
        for (int k = 0; k < width; k += 8)
            PB_LANES(l, 8) best[k + l] -= at_v[k + l];
        pb_add(&bound, pb_row_max(width, best));
        pb_add(&size, pb_row_max(width, magnitude));
    }
    const double terms = (double)g->n + g->m, total = size.total + size.block + g->sizes;
    /* DBL_EPSILON is twice the unit roundoff: covers products of errors and the rounding of `total` itself */
    return bound.total + bound.block
        + DBL_EPSILON * ((terms < 256.0 ? terms : 256.0 + terms / 256.0) + degree + 8.0) * total;
}
PB_GRAPH_CLONES(double, return, pb_bound)

static int pb_first_best(int K, const double *row)
{
    int best = 0;
    for (int k = 1; k < K; k++)
        best = row[k] > row[best] ? k : best;
    return best;
}

/* Solves every component that is a tree, by dynamic programming from the leaves: with U_j = theta_j + messages of the
 * children, d at j is -U_j and d at its parent the message, so that D(d) is the maximum. Sets `order` to the others. */
static void pb_solve_trees(pb_graph *g)
{
    int *labels = g->trial;
    int end = 0;
    g->n_order = 0;
    for (int v = 0; v < g->n; v++)
        g->parent[v] = -2;
    for (int root = 0; root < g->n; root++) {
        const int start = end;
        int n_arcs = 0;
        if (g->parent[root] != -2)
            continue;
        g->parent[root] = -1;
        g->queue[end++] = root;
        for (int i = start; i < end; i++) {
            const int s = g->queue[i];
            n_arcs += g->first[s + 1] - g->first[s];
            for (int j = g->first[s]; j < g->first[s + 1]; j++) {
                const int back = g->arcs[j] ^ 1, child = (int)g->ends[back];
                if (g->parent[child] == -2) {
                    g->parent[child] = back;
                    g->queue[end++] = child;
                }
            }
        }
        if (n_arcs != 2 * (end - start - 1)) {
            for (int i = start; i < end; i++)
                labels[g->queue[i]] = -1;
            continue;
        }
        double *U = g->row;
        for (int i = end - 1; i >= start; i--) {
            const int s = g->queue[i], up = g->parent[s];
            pb_copy_row(g->width, PB_AT(g->theta, s, g->width), U);
            for (int j = g->first[s]; j < g->first[s + 1]; j++)
                if (g->arcs[j] != up)
                    pb_add_row(g->width, PB_AT(g->d, g->arcs[j], g->width), U);
            if (up < 0) {
                labels[s] = pb_first_best(g->K, U);
                break;
            }
            for (int k = 0; k < g->width; k++)
                PB_AT(g->d, up, g->width)[k] = -U[k];
            pb_max_row(g->K, g->width, U, pb_rows(g, g->width, up), PB_AT(g->d, up ^ 1, g->width));
            pb_normalize(g->width, PB_AT(g->d, up ^ 1, g->width));
        }
        for (int i = start + 1; i < end; i++) {
            const int s = g->queue[i], up = g->parent[s];
            const double *row = PB_AT(pb_rows(g, g->width, up ^ 1), labels[g->ends[up ^ 1]], g->width);
            for (int k = 0; k < g->K; k++)
                U[k] = row[k] - PB_AT(g->d, up, g->width)[k];
            labels[s] = pb_first_best(g->K, U);
        }
    }
    for (int v = 0; v < g->n; v++)
        if (labels[v] < 0)
            g->order[g->n_order++] = v;
}

/* Labels the nodes of `order` one after another, given the labels of earlier nodes and the messages of later ones;
 * then changes single labels for better ones, until there are none or 50 rounds are over. */
PB_INLINE void pb_round_labels_lanes(const pb_graph *g, int width)
{
    int *labels = g->trial;
    double *score = g->row;
    for (int round = 0, changed = 1; changed && round < 50; round++) {
        changed = 0;
        for (int i = 0; i < g->n_order; i++) {
            const int s = g->order[i];
            pb_copy_row(width, PB_AT(g->theta, s, width), score);
            for (int j = g->first[s]; j < g->first[s + 1]; j++) {
                const int arc = g->arcs[j];
                if (round == 0 && j >= g->middle[s])
                    pb_add_row(width, PB_AT(g->d, arc, width), score);
                else
                    pb_add_row(width, PB_AT(pb_rows(g, width, arc ^ 1), labels[g->ends[arc ^ 1]], width), score);
            }
            const int best = pb_first_best(g->K, score);
            if (round == 0 || score[best] > score[labels[s]]) {
                labels[s] = best;
                changed = 1;
            }
        }
    }
}
PB_GRAPH_CLONES(void, , pb_round_labels)

/* Takes d, and the labelling that belongs to it, if they are better. Returns D(d). */
static double pb_compare(pb_graph *g)
{
    const int width = g->width, *y = g->trial;
    const double upper = pb_bound(g);
    pb_sum score = {0.0, 0.0, 0};
    pb_round_labels(g);
    for (int v = 0; v < g->n; v++)
        pb_add(&score, PB_AT(g->theta, v, width)[y[v]]);
    for (int e = 0; e < g->m; e++)
        pb_add(&score, PB_AT(pb_rows(g, width, 2 * e), y[g->ends[2 * e]], width)[y[g->ends[2 * e + 1]]]);
    if (score.total + score.block > g->value) {
        g->value = score.total + score.block;
        memcpy(g->labels, g->trial, sizeof(int) * (size_t)g->n);
    }
    if (upper < g->upper) {
        g->upper = upper;
        memcpy(g->best_d, g->d, sizeof(double) * 2 * (size_t)g->m * width);
    }
    return upper;
}

/* Solves trees, then sweeps until the gap is at most tol, `sweeps` are done, or a sweep closes less than `share` of the
 * gap; two sweeps at least, so that messages that are kept from call to call follow the scores. */
static void pb_hard_search(pb_graph *g, double tol, int sweeps, double share)
{
    g->value = -INFINITY;
    g->upper = INFINITY;
    pb_solve_trees(g);
    pb_compare(g);
    for (int done = 0, step; g->n_order && done < sweeps; done += step) {
        const double gap = g->upper - g->value;
        if (done >= 2 && gap <= tol)
            break;
        step = done < 4 ? 1 : sweeps - done < 5 ? sweeps - done : 5;
        for (int i = 0; i < step; i++)
            pb_sweep(g);
        pb_compare(g);
        if (done >= 2 && gap - (g->upper - g->value) <= share * step * gap)
            break;
    }
}

#endif
