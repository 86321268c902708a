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

#define PB_AT(array, i, width) ((array) + (ptrdiff_t)(i) * (width))

/* One graph as the caller has it. */
typedef struct {
    int K, n, m, shared;          /* shared: one table for all edges */
    const double *unaries;        /* (n, K) */
    const int64_t *edges;         /* (m, 2) */
    const double *tables;         /* (m, K, K), or (K, K) */
    double *messages;             /* (m, 2, K): read as the start, then set to the dual point of the bound; or NULL */
} pb_scores;

/* Edges u < v, parallel ones merged. Arc 2e is at u, arc 2e + 1 at v. rows[a] is the table seen from arc a: row k holds
 * the scores of the labels at the other end if the label at this end is k. */
typedef struct {
    int K, width, n, m, n_order;
    int *ends;                    /* (m, 2) */
    int *first, *middle;          /* arcs at s to earlier nodes: first[s] ..., to later ones: middle[s] ... */
    int *arcs;                    /* (2m,) */
    int *merged;                  /* (given m,): 2e, or 2e + 1 if the given edge runs from v to u */
    int *order;                   /* nodes that are in no tree, ascending */
    int *queue, *parent;          /* nodes in breadth-first order; arc at the node to its parent, -1, or -2 unvisited */
    const double **rows;          /* (2m,) of (K, width) */
    double *gamma;                /* 1 / max(number of earlier, of later neighbours) */
    double *theta;                /* (n, width) */
    double *store;                /* (2m, K, width): memory of rows */
    double *d, *best_d;           /* (2m, width) */
    double *belief;               /* (n, width): gamma (theta + sum of messages) at the last visit */
    double *row;                  /* (4, width) scratch */
    double sizes;                 /* sum over tables of their largest |score| */
    double sums;                  /* sum over additions of parallel tables of the largest |result| */
    double scale;                 /* mean half range of unaries and tables */
} pb_graph;

/* A sum in blocks: its rounding error grows with 256 + n / 256, not with the number n of terms. */
typedef struct {
    double total, block;
    int count;
} pb_block_sum;

PB_INLINE void pb_block_add(pb_block_sum *sum, double term)
{
    sum->block += term;
    if (++sum->count == 256) {
        sum->total += sum->block;
        sum->block = 0.0;
        sum->count = 0;
    }
}

/* Splits `memory` among the arrays of a graph of at most n nodes and m edges; returns the bytes needed. */
static size_t pb_graph_layout(pb_graph *g, char *memory, int K, size_t n, size_t m, int shared)
{
    const size_t width = (size_t)(K + 7) / 8 * 8;
    size_t used = 0;
    g->K = K;
    g->width = (int)width;
#define PB_TAKE(field, type, count)                              \
    g->field = (type *)(memory ? memory + used : NULL);          \
    used += ((count) * sizeof(type) + 63) / 64 * 64
    PB_TAKE(theta, double, n * width);
    PB_TAKE(belief, double, n * width);
    PB_TAKE(d, double, 2 * m * width);
    PB_TAKE(best_d, double, 2 * m * width);
    PB_TAKE(store, double, (shared ? m + 2 : 2 * m) * (size_t)K * width);
    PB_TAKE(row, double, 4 * width);
    PB_TAKE(gamma, double, n);
    PB_TAKE(rows, const double *, 2 * m);
    PB_TAKE(ends, int, 2 * m);
    PB_TAKE(first, int, n + 2);
    PB_TAKE(middle, int, n + 1);
    PB_TAKE(arcs, int, 2 * m);
    PB_TAKE(merged, int, m);
    PB_TAKE(order, int, n);
    PB_TAKE(queue, int, n);
    PB_TAKE(parent, int, n);
#undef PB_TAKE
    return used;
}

/* Sets or adds a table (K, K), or its transpose if `flip`, to rows seen from both ends; returns the largest |entry|. */
static double pb_load_table(int K, int width, const double *table, int flip, int add, double *from_u,
                            double *from_v)
{
    double most = 0.0;
    for (int k = 0; k < K; k++)
        for (int l = 0; l < K; l++) {
            const double t = table[flip ? l * K + k : k * K + l] + (add ? from_u[k * width + l] : 0.0);
            from_u[k * width + l] = from_v[l * width + k] = t;
            most = fabs(t) > most ? fabs(t) : most;
        }
    for (int k = 0; k < K; k++)
        for (int l = K; l < width; l++) {
            from_u[k * width + l] = from_u[k * width + K - 1];
            from_v[k * width + l] = from_v[k * width + K - 1];
        }
    return most;
}

static double pb_range(int K, int count, int width, const double *rows)
{
    double low = rows[0], high = rows[0];
    for (int i = 0; i < count; i++)
        for (int k = 0; k < K; k++) {
            low = PB_AT(rows, i, width)[k] < low ? PB_AT(rows, i, width)[k] : low;
            high = PB_AT(rows, i, width)[k] > high ? PB_AT(rows, i, width)[k] : high;
        }
    return high - low;
}

/* Sets ends, arcs and rows from edges that are valid. */
static void pb_load_edges(pb_graph *g, const pb_scores *s)
{
    const int n = s->n, K = s->K, width = g->width;
    const ptrdiff_t size = (ptrdiff_t)K * width;
    int *mark = g->parent;
    double *free_store = g->store;
    memset(g->first, 0, sizeof(int) * (size_t)(n + 2));
    for (int e = 0; e < s->m; e++)
        g->first[(s->edges[2 * e] < s->edges[2 * e + 1] ? s->edges[2 * e] : s->edges[2 * e + 1]) + 2]++;
    for (int v = 0; v < n; v++) {
        g->first[v + 1] += g->first[v];
        mark[v] = -1;
    }
    for (int e = 0; e < s->m; e++)                  /* arcs: the given edges, sorted by their smaller end */
        g->arcs[g->first[(s->edges[2 * e] < s->edges[2 * e + 1] ? s->edges[2 * e] : s->edges[2 * e + 1]) + 1]++] = e;
    g->m = 0;
    for (int i = 0; i < s->m; i++) {
        const int e = g->arcs[i], flip = s->edges[2 * e] > s->edges[2 * e + 1];
        const int u = (int)s->edges[2 * e + flip], v = (int)s->edges[2 * e + 1 - flip];
        if (mark[v] < 0 || g->ends[2 * mark[v]] != u) {
            g->ends[2 * g->m] = u;
            g->ends[2 * g->m + 1] = v;
            g->rows[2 * g->m] = NULL;
            mark[v] = g->m++;
        }
        g->merged[e] = 2 * mark[v] + flip;
    }
    g->sums = 0.0;
    if (s->shared && s->m) {
        pb_load_table(K, width, s->tables, 0, 0, free_store, free_store + size);
        free_store += 2 * size;
    }
    for (int e = 0; e < s->m; e++) {
        const int flip = g->merged[e] & 1;
        const double **rows = g->rows + (g->merged[e] - flip);
        const double *table = s->shared ? s->tables : s->tables + (ptrdiff_t)e * K * K;
        const int is_first = rows[0] == NULL;
        const int is_alias = !is_first && s->shared && (rows[0] == g->store || rows[1] == g->store);
        if (is_first && s->shared) {                /* both ends read the shared table, without a copy */
            rows[0] = g->store + flip * size;
            rows[1] = g->store + (1 - flip) * size;
            continue;
        }
        if (is_alias)
            pb_load_table(K, width, table, rows[1] == g->store, 0, free_store, free_store + size);
        if (is_alias || is_first) {
            rows[0] = free_store;
            rows[1] = free_store + size;
            free_store += 2 * size;
        }
        const double most = pb_load_table(K, width, table, flip, !is_first, (double *)rows[0], (double *)rows[1]);
        g->sums += is_first ? 0.0 : most;
    }
    memset(g->first, 0, sizeof(int) * (size_t)(n + 2));
    for (int a = 0; a < 2 * g->m; a++)
        g->first[g->ends[a] + 1]++;
    for (int v = 0; v < n; v++) {
        g->first[v + 1] += g->first[v];
        g->middle[v] = g->first[v];
    }
    for (int e = 0; e < g->m; e++)
        g->arcs[g->middle[g->ends[2 * e + 1]]++] = 2 * e + 1;
    for (int v = 0; v < n; v++) {
        const int earlier = g->middle[v] - g->first[v], later = g->first[v + 1] - g->middle[v];
        g->gamma[v] = 1.0 / (earlier > later ? earlier : later > 0 ? later : 1);
        mark[v] = g->middle[v];
    }
    for (int e = 0; e < g->m; e++)
        g->arcs[mark[g->ends[2 * e]]++] = 2 * e;
}

/* Sets g from the scores; their edges are valid and their numbers finite. */
static void pb_graph_load(pb_graph *g, const pb_scores *s)
{
    const int K = s->K, width = g->width;
    double ranges = 0.0;
    g->n = s->n;
    g->sizes = 0.0;
    pb_load_edges(g, s);
    for (int v = 0; v < g->n; v++) {
        const double *unary = s->unaries + (ptrdiff_t)v * K;
        for (int k = 0; k < width; k++)
            PB_AT(g->theta, v, width)[k] = unary[k < K ? k : K - 1];
        ranges += pb_range(K, 1, K, unary);
    }
    for (int e = 0; e < g->m; e++) {
        double most = 0.0;
        for (int i = 0; i < K * width; i++)
            most = fabs(g->rows[2 * e][i]) > most ? fabs(g->rows[2 * e][i]) : most;
        g->sizes += most;
        ranges += pb_range(K, K, width, g->rows[2 * e]);
    }
    g->scale = ranges / (2.0 * ((double)g->n + g->m + 1e-300));
    memset(g->d, 0, sizeof(double) * 2 * (size_t)g->m * width);
    for (int e = 0; e < (s->messages ? s->m : 0); e++)
        for (int end = 0; end < 2; end++) {
            double *d = PB_AT(g->d, g->merged[e] ^ end, width);
            for (int k = 0; k < width; k++)
                d[k] += PB_AT(s->messages, 2 * (ptrdiff_t)e + end, K)[k < K ? k : K - 1];
        }
}

/* Sets the messages to d; of parallel edges, the first takes all. */
static void pb_store_messages(pb_graph *g, const pb_scores *s, const double *d)
{
    for (int e = 0; e < s->m; e++) {
        const int arc = g->merged[e], is_first = g->rows[arc & ~1] != NULL;
        for (int end = 0; end < 2; end++)
            for (int k = 0; k < s->K; k++)
                PB_AT(s->messages, 2 * (ptrdiff_t)e + end, s->K)[k] = is_first ? PB_AT(d, arc ^ end, g->width)[k] : 0.0;
        g->rows[arc & ~1] = NULL;
    }
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

/* out(l) = max_k x(k) + rows[k](l), minus its maximum */
PB_INLINE void pb_message(int K, int width, const double *x, const double *PB_RESTRICT rows, double *PB_RESTRICT out)
{
    for (int at = 0; at < width; at += 8) {
        double best[8];
        PB_LANES(l, 8) best[l] = x[0] + rows[at + l];
        for (int k = 1; k < K; k++)
            PB_LANES(l, 8)
            {
                const double sum = x[k] + rows[k * width + at + l];
                best[l] = sum > best[l] ? sum : best[l];
            }
        PB_LANES(l, 8) out[at + l] = best[l];
    }
    const double top = pb_row_max(width, out);
    for (int at = 0; at < width; at += 8)
        PB_LANES(l, 8) out[at + l] -= top;
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
                double *x = g->row, *d = PB_AT(g->d, arc, width);
                for (int k = 0; k < width; k += 8)
                    PB_LANES(l, 8)
                    {
                        x[k + l] = belief[k + l] - d[k + l];
                        d[k + l] = -x[k + l];
                    }
                pb_message(g->K, width, x, g->rows[arc], PB_AT(g->d, arc ^ 1, width));
            }
        }
}

/* D(d), and a bound on its rounding: a term of node s has as many additions as arcs, one of an edge two. */
PB_INLINE double pb_bound_lanes(const pb_graph *g, int width)
{
    pb_block_sum bound = {0.0, 0.0, 0}, size = {0.0, 0.0, 0};
    double *sum = g->row, *magnitude = g->row + width;
    int degree = 2;
    for (int s = 0; s < g->n; s++) {
        pb_copy_row(width, PB_AT(g->theta, s, width), sum);
        for (int k = 0; k < width; k++)
            magnitude[k] = fabs(sum[k]);
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
        pb_block_add(&bound, pb_row_max(width, sum));
        pb_block_add(&size, pb_row_max(width, magnitude));
    }
    for (int e = 0; e < g->m; e++) {
        const double *at_u = PB_AT(g->d, 2 * e, width), *at_v = PB_AT(g->d, 2 * e + 1, width);
        double most = -INFINITY, large[2];
        for (int end = 0; end < 2; end++) {
            for (int k = 0; k < width; k++)
                magnitude[k] = fabs(PB_AT(g->d, 2 * e + end, width)[k]);
            large[end] = pb_row_max(width, magnitude);
        }
        for (int at = 0; at < width; at += 8) {
            double best[8];
            PB_LANES(l, 8) best[l] = g->rows[2 * e][at + l] - at_u[0];
            for (int k = 1; k < g->K; k++)
                PB_LANES(l, 8)
                {
                    const double t = g->rows[2 * e][k * width + at + l] - at_u[k];
                    best[l] = t > best[l] ? t : best[l];
                }
            PB_LANES(l, 8) best[l] -= at_v[at + l];
            const double here = pb_row_max(8, best);
            most = here > most ? here : most;
        }
        pb_block_add(&bound, most);
        pb_block_add(&size, large[0] + large[1]);
    }
    const double terms = (double)g->n + g->m, total = size.total + size.block + g->sizes;
    /* DBL_EPSILON is twice the unit roundoff: covers products of errors and the rounding of `total` itself */
    return bound.total + bound.block
        + DBL_EPSILON * (((terms < 256.0 ? terms : 256.0 + terms / 256.0) + degree + 8.0) * total + g->sums);
}

#define PB_BY_WIDTH(name) \
    (g->width == 8 ? name(g, 8) : g->width == 16 ? name(g, 16) : name(g, g->width))

PB_INLINE void pb_sweep_body(const pb_graph *g) { PB_BY_WIDTH(pb_sweep_lanes); }
PB_CLONES(void, , pb_sweep, (const pb_graph *g), (g))
PB_INLINE double pb_bound_body(const pb_graph *g) { return PB_BY_WIDTH(pb_bound_lanes); }
PB_CLONES(double, return, pb_bound, (const pb_graph *g), (g))

static int pb_first_best(int K, const double *row)
{
    int best = 0;
    for (int k = 1; k < K; k++)
        best = row[k] > row[best] ? k : best;
    return best;
}

/* Solves every component that is a tree, by dynamic programming from the leaves: with U_j = theta_j + messages of the
 * children, d at j is -U_j and d at its parent the message, so that D(d) is the maximum. Sets `order` to the others. */
static void pb_solve_trees(pb_graph *g, int *labels)
{
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
                const int back = g->arcs[j] ^ 1, child = g->ends[back];
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
            pb_message(g->K, g->width, U, g->rows[up], PB_AT(g->d, up ^ 1, g->width));
        }
        for (int i = start + 1; i < end; i++) {
            const int s = g->queue[i], up = g->parent[s];
            const double *row = PB_AT(g->rows[up ^ 1], labels[g->ends[up ^ 1]], g->width);
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
static void pb_round_labels(const pb_graph *g, int *labels)
{
    double *score = g->row;
    for (int round = 0, changed = 1; changed && round < 50; round++) {
        changed = 0;
        for (int i = 0; i < g->n_order; i++) {
            const int s = g->order[i];
            pb_copy_row(g->width, PB_AT(g->theta, s, g->width), score);
            for (int j = g->first[s]; j < g->first[s + 1]; j++) {
                const int arc = g->arcs[j];
                if (round == 0 && j >= g->middle[s])
                    pb_add_row(g->width, PB_AT(g->d, arc, g->width), score);
                else
                    pb_add_row(g->width, PB_AT(g->rows[arc ^ 1], labels[g->ends[arc ^ 1]], g->width), score);
            }
            const int best = pb_first_best(g->K, score);
            if (round == 0 || score[best] > score[labels[s]]) {
                labels[s] = best;
                changed = 1;
            }
        }
    }
}

/* The score of a labelling, of merged edges */
static double pb_graph_score(const pb_graph *g, const int *labels)
{
    pb_block_sum score = {0.0, 0.0, 0};
    for (int v = 0; v < g->n; v++)
        pb_block_add(&score, PB_AT(g->theta, v, g->width)[labels[v]]);
    for (int e = 0; e < g->m; e++)
        pb_block_add(&score, PB_AT(g->rows[2 * e], labels[g->ends[2 * e]], g->width)[labels[g->ends[2 * e + 1]]]);
    return score.total + score.block;
}

/* The score of a labelling, from the arguments */
static double pb_given_score(const pb_scores *s, const int *labels)
{
    pb_block_sum score = {0.0, 0.0, 0};
    for (int v = 0; v < s->n; v++)
        pb_block_add(&score, PB_AT(s->unaries, v, s->K)[labels[v]]);
    for (int e = 0; e < s->m; e++)
        pb_block_add(&score, s->tables[(s->shared ? 0 : (ptrdiff_t)e * s->K * s->K)
                                       + (ptrdiff_t)labels[s->edges[2 * e]] * s->K + labels[s->edges[2 * e + 1]]]);
    return score.total + score.block;
}

/* Whether min_cut takes the tables of two labels, as submodular up to rounding; if so, sets `own` (m, 2, 2) to them. */
static int pb_submodular(const pb_scores *s, double *own)
{
    for (int e = 0; e < s->m; e++) {
        const double *t = s->tables + (s->shared ? 0 : 4 * (ptrdiff_t)e);
        if (t[0] + t[3] - (t[1] + t[2]) < -1e-15 * (fabs(t[0]) + fabs(t[1]) + fabs(t[2]) + fabs(t[3])))
            return 0;
        memcpy(own + 4 * (ptrdiff_t)e, t, 4 * sizeof(double));
    }
    return 1;
}

/* The best labelling and bound met so far; the dual point of the bound is best_d of the graph. */
typedef struct {
    int *labels, *trial;          /* (n,) */
    double value, upper;
} pb_search;

/* Takes d, and the labelling that belongs to it, if they are better. Returns D(d). */
static double pb_compare(const pb_graph *g, pb_search *best)
{
    const double upper = pb_bound(g);
    pb_round_labels(g, best->trial);
    const double value = pb_graph_score(g, best->trial);
    if (value > best->value) {
        best->value = value;
        memcpy(best->labels, best->trial, sizeof(int) * (size_t)g->n);
    }
    if (upper < best->upper) {
        best->upper = upper;
        memcpy(g->best_d, g->d, sizeof(double) * 2 * (size_t)g->m * g->width);
    }
    return upper;
}

/* Solves trees, then sweeps until the gap is at most tol, `sweeps` are done, or a sweep closes less than `share` of the
 * gap; two sweeps at least, so that messages that are kept from call to call follow the scores. */
static void pb_hard_search(pb_graph *g, pb_search *best, double tol, int sweeps, double share)
{
    best->value = -INFINITY;
    best->upper = INFINITY;
    pb_solve_trees(g, best->trial);
    pb_compare(g, best);
    for (int done = 0, step; g->n_order && done < sweeps; done += step) {
        const double gap = best->upper - best->value;
        if (done >= 2 && gap <= tol)
            break;
        step = done < 4 ? 1 : sweeps - done < 5 ? sweeps - done : 5;
        for (int i = 0; i < step; i++)
            pb_sweep(g);
        pb_compare(g, best);
        if (done >= 2 && gap - (best->upper - best->value) <= share * step * gap)
            break;
    }
}

#endif
