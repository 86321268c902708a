/* Maximum flow by incremental breadth-first search, on the graph of a binary labelling problem.
 *
 * Algorithm: Goldberg, Hed, Kaplan, Tarjan, Werneck, "Maximum flows by incremental breadth-first search", ESA 2011.
 * Two breadth-first trees grow towards each other, one level at a time: S from the source, T from the sink. An arc
 * from S to T completes an augmenting path. A node that loses its parent (an orphan) takes one that keeps its level,
 * else the least possible level; else it becomes free. Terminals are not nodes: excess > 0 is the flow that the source
 * can still send to a node, -excess > 0 the flow that the node can still send to the sink.
 *
 * Termination with float64: each step depends only on which residuals are zero. A push of the least residual f of its
 * path makes that residual exactly 0 (x - x), none negative (f <= x), and every opposite residual positive (x >= 0,
 * f > 0: x + f > 0, also after rounding). So each run is a run of the combinatorial algorithm. Its bound of O(n^2 m)
 * steps does not depend on capacities and holds without any threshold: labels never fall and are at most n + 2; while
 * a label stays, its current arc only advances; each push saturates an arc or uses up an excess, and neither can
 * happen there again until the label of one of its ends has risen.
 *
 * pb_cut_bound recomputes a dual bound from the arcs, so that errors of rounding are measured, not assumed. */
#ifndef PYBUNDLE_GRAPHCUT_H
#define PYBUNDLE_GRAPHCUT_H

#include <float.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#include "_simd.h"

enum { PB_ORPHAN = -1, PB_ROOT = -2 };

typedef struct {
    double residual;
    int head;
    int sister;       /* 2 * index of the opposite arc, + 1 if that has a residual, so that scans read one arc only */
} pb_arc;

typedef struct {
    double excess;
    int first;        /* first arc; the arcs end before `first` of the next node */
    int label;        /* k > 0: level k of S (roots have 1); -k: level k of T; 0: free */
    int parent;       /* arc to the parent, PB_ROOT or PB_ORPHAN */
    int current;      /* arcs before this one do not lead to a possible parent one level up */
    int next;         /* next orphan of the same level */
} pb_node;

typedef struct {
    int limit;        /* largest label allowed now */
    int n_fill;
    int *fill, *spare;/* nodes with the label `limit`: each node receives a label once, so n entries are enough */
    int *orphans;     /* first orphan of each level */
    int n_orphans, least;
} pb_tree;

typedef struct {
    int n;
    pb_node *nodes;   /* n + 1 */
    pb_arc *arcs;     /* 2 for each edge */
    pb_tree trees[2];
} pb_cut;

PB_INLINE int pb_open(const pb_arc *arc, int outwards)
{
    return outwards ? arc->residual > 0.0 : arc->sister & 1;
}

PB_INLINE void pb_set_label(pb_cut *g, int side, int v, int level)
{
    pb_tree *tree = &g->trees[side < 0];
    g->nodes[v].label = side * level;
    if (level == tree->limit)
        tree->fill[tree->n_fill++] = v;
}

PB_INLINE void pb_make_orphan(pb_cut *g, int side, int v)
{
    pb_tree *tree = &g->trees[side < 0];
    pb_node *node = &g->nodes[v];
    int level = side * node->label;
    node->parent = PB_ORPHAN;
    node->next = tree->orphans[level];
    tree->orphans[level] = v;
    tree->n_orphans++;
    if (level < tree->least)
        tree->least = level;
}

/* Finds parents for orphans in the order of their levels: at level k all lower levels are final, so that a node becomes
 * free only if no node below the limit, orphan or not, can be its parent. */
PB_INLINE void pb_adopt(pb_cut *g, int side)
{
    pb_tree *tree = &g->trees[side < 0];
    pb_node *nodes = g->nodes;
    pb_arc *arcs = g->arcs;
    for (int level = tree->least; tree->n_orphans; level++) {
        int v;
        while ((v = tree->orphans[level]) >= 0) {
            pb_node *node = &nodes[v];
            const int end = node[1].first;
            int a = end;
            tree->orphans[level] = node->next;
            tree->n_orphans--;
            if (level > 1)
                for (a = node->current; a < end; a++)
                    if (side * nodes[arcs[a].head].label == level - 1 && pb_open(&arcs[a], side < 0))
                        break;
            if (a < end) {
                node->current = node->parent = a;
                continue;
            }
            int best = tree->limit, best_arc = -1;
            for (a = node->first; a < end; a++) {
                const int w = arcs[a].head, other = side * nodes[w].label;
                if (other <= 0)
                    continue;
                if (other < best && pb_open(&arcs[a], side < 0)) {
                    best = other;
                    best_arc = a;
                }
                if (nodes[w].parent == arcs[a].sister >> 1)
                    pb_make_orphan(g, side, w);
            }
            if (best_arc < 0) {
                node->label = 0;
            } else {
                node->current = best_arc;
                pb_set_label(g, side, v, best + 1);
                pb_make_orphan(g, side, v);
            }
        }
    }
    tree->least = g->n + 2;
}

PB_INLINE double pb_push(pb_arc *arcs, int a, double flow)
{
    pb_arc *arc = &arcs[a], *sister = &arcs[arc->sister >> 1];
    arc->residual -= flow;
    sister->residual += flow;
    arc->sister |= 1;
    if (arc->residual == 0.0)
        sister->sister &= ~1;
    return arc->residual;
}

/* Augments the flow along the path through `bridge`, an arc from S to T. */
static void pb_augment(pb_cut *g, int bridge)
{
    pb_node *nodes = g->nodes;
    pb_arc *arcs = g->arcs;
    const int tail = arcs[arcs[bridge].sister >> 1].head, head = arcs[bridge].head;
    double flow = arcs[bridge].residual;
    int v, a;
    for (v = tail; (a = nodes[v].parent) >= 0; v = arcs[a].head) {
        const double residual = arcs[arcs[a].sister >> 1].residual;
        flow = residual < flow ? residual : flow;
    }
    flow = nodes[v].excess < flow ? nodes[v].excess : flow;
    for (v = head; (a = nodes[v].parent) >= 0; v = arcs[a].head)
        flow = arcs[a].residual < flow ? arcs[a].residual : flow;
    flow = -nodes[v].excess < flow ? -nodes[v].excess : flow;

    pb_push(arcs, bridge, flow);
    for (v = tail; (a = nodes[v].parent) >= 0;) {
        const int up = arcs[a].head;
        if (pb_push(arcs, arcs[a].sister >> 1, flow) == 0.0)
            pb_make_orphan(g, 1, v);
        v = up;
    }
    if ((nodes[v].excess -= flow) == 0.0)
        pb_make_orphan(g, 1, v);
    for (v = head; (a = nodes[v].parent) >= 0;) {
        const int up = arcs[a].head;
        if (pb_push(arcs, a, flow) == 0.0)
            pb_make_orphan(g, -1, v);
        v = up;
    }
    if ((nodes[v].excess += flow) == 0.0)
        pb_make_orphan(g, -1, v);
}

/* Adds a level to a tree, from all nodes of its last level. */
PB_INLINE void pb_grow(pb_cut *g, int side)
{
    pb_tree *tree = &g->trees[side < 0];
    pb_node *nodes = g->nodes;
    pb_arc *arcs = g->arcs;
    int *level_nodes = tree->fill;
    const int n_level = tree->n_fill, level = tree->limit++;
    tree->fill = tree->spare;
    tree->spare = level_nodes;
    tree->n_fill = 0;
    for (int q = 0; q < n_level; q++) {
        const int v = level_nodes[q];
        /* an augmentation may cut v off and so change its label */
        for (int a = nodes[v].first; a < nodes[v + 1].first && nodes[v].label == side * level;) {
            if (!pb_open(&arcs[a], side > 0)) {
                a++;
                continue;
            }
            const int w = arcs[a].head, other = side * nodes[w].label;
            if (other < 0) {
                pb_augment(g, side > 0 ? a : arcs[a].sister >> 1);
                if (g->trees[0].n_orphans)
                    pb_adopt(g, 1);
                if (g->trees[1].n_orphans)
                    pb_adopt(g, -1);
                continue;
            }
            if (other == 0) {
                nodes[w].parent = arcs[a].sister >> 1;
                nodes[w].current = nodes[w].first;
                pb_set_label(g, side, w, level + 1);
            }
            a++;
        }
    }
}

/* Computes the maximum flow; excesses and arcs are set before. Afterwards label > 0 marks the source side of the
 * minimum cut with the fewest nodes there. */
static void pb_max_flow(pb_cut *g)
{
    for (int k = 0; k < 2; k++) {
        g->trees[k].limit = 1;
        g->trees[k].n_fill = g->trees[k].n_orphans = 0;
        g->trees[k].least = g->n + 2;
        for (int level = 0; level < g->n + 4; level++)
            g->trees[k].orphans[level] = -1;
    }
    for (int v = 0; v < g->n; v++) {
        pb_node *node = &g->nodes[v];
        node->label = 0;
        node->parent = PB_ORPHAN;
        if (node->excess != 0.0) {
            node->parent = PB_ROOT;
            pb_set_label(g, node->excess > 0.0 ? 1 : -1, v, 1);
        }
    }
    while (g->trees[0].n_fill && g->trees[1].n_fill) {
        if (g->trees[0].limit <= g->trees[1].limit)
            pb_grow(g, 1);
        else
            pb_grow(g, -1);
    }
    while (g->trees[0].n_fill)          /* T is complete: no augmenting path is left, S gains only free nodes */
        pb_grow(g, 1);
}

/* A labelling problem: maximise sum_j unary_j(y_j) + sum_e pair_e(y_a, y_b), y in {0, 1}^n. */
typedef struct {
    const double *unary;      /* (n,): the score of label 1, or (n, 2) */
    const double *pairs;      /* (m,): weights, subtracted if the labels differ, or (m, 2, 2) */
    const void *edges;        /* (m, 2) of int32 or int64 */
    int two_unaries, tables, wide;
} pb_labelling;

enum { PB_GRAPH_OK = 0, PB_BAD_UNARY, PB_BAD_END, PB_SELF_LOOP, PB_BAD_PAIR, PB_NOT_SUBMODULAR, PB_TOO_LARGE };

typedef struct {
    double score[2][2];       /* [y_a][y_b] */
    double forth, back;       /* capacities a -> b (paid if y = 1, 0) and b -> a */
    double a, b;              /* added to the unary scores of y_a = 1 and y_b = 1 */
} pb_table;

PB_INLINE int64_t pb_end(const pb_labelling *p, int64_t k)
{
    return p->wide ? ((const int64_t *)p->edges)[k] : ((const int32_t *)p->edges)[k];
}

/* score(y_a, y_b) = score(0, 0) + a y_a + b y_b - forth y_a (1 - y_b) - back (1 - y_a) y_b; -inf becomes `big`.
 * Returns 0 if a capacity would be negative by more than rounding. */
PB_INLINE int pb_read_table(const double *t, double big, pb_table *out)
{
    const double s00 = t[0], s01 = t[1], s10 = t[2], s11 = t[3];
    const int cut01 = s01 == -INFINITY, cut10 = s10 == -INFINITY;
    for (int k = 0; k < 4; k++)
        out->score[k >> 1][k & 1] = t[k];
    if (cut01 || cut10) {
        out->back = cut01 ? big : 0.0;
        out->forth = cut10 ? big : 0.0;
        out->a = cut01 && cut10 ? 0.5 * (s11 - s00) : cut01 ? s10 - s00 : s11 - s01;
        out->b = cut01 && cut10 ? 0.5 * (s11 - s00) : cut01 ? s11 - s10 : s01 - s00;
        return 1;
    }
    const double sum = (s00 + s11) - (s01 + s10), half = sum > 0.0 ? 0.5 * sum : 0.0;
    out->forth = out->back = half;
    out->a = s10 - s00 + half;
    out->b = s01 - s00 + half;
    return sum >= -1e-15 * (fabs(s00) + fabs(s01) + fabs(s10) + fabs(s11));
}

/* Checks the problem and counts arcs: nodes[v + 1].first = degree of v. Sets `big` to more than twice the largest
 * change that all finite scores together can make, or to 0 if no score is -inf; `cap` to an upper bound on any flow;
 * `where` to the node or edge of an error. Returns an error code. */
static int pb_cut_check(pb_cut *g, const pb_labelling *p, int64_t n, int64_t m, double *big, double *cap,
                        int64_t *where)
{
    pb_node *nodes = g->nodes;
    double total = 0.0;
    int forbidden = 0;
    for (int64_t v = 0; v <= n; v++)
        nodes[v].first = 0;
    for (int64_t k = 0; k < (p->two_unaries ? 2 * n : n); k++) {
        const double size = fabs(p->unary[k]);
        if (size <= DBL_MAX) {
            total += size;
        } else if (p->unary[k] == -INFINITY) {
            forbidden = 1;
        } else {
            *where = k;
            return PB_BAD_UNARY;
        }
    }
    *cap = forbidden ? INFINITY : total;
    for (int64_t e = 0; e < m; e++) {
        const int64_t a = pb_end(p, 2 * e), b = pb_end(p, 2 * e + 1);
        *where = e;
        if ((uint64_t)a >= (uint64_t)n || (uint64_t)b >= (uint64_t)n)
            return PB_BAD_END;
        if (a == b)
            return PB_SELF_LOOP;
        nodes[a + 1].first++;
        nodes[b + 1].first++;
        if (!p->tables) {
            const double weight = p->pairs[e];
            if (!(weight >= 0.0 && weight <= DBL_MAX))
                return PB_BAD_PAIR;
            total += weight;
            continue;
        }
        const double *t = p->pairs + 4 * e;
        pb_table table;
        for (int k = 0; k < 4; k++) {
            if (fabs(t[k]) <= DBL_MAX)
                total += fabs(t[k]);
            else if (t[k] == -INFINITY)
                forbidden = 1;
            else
                return PB_BAD_PAIR;
        }
        if (!(total < 1e307))
            return PB_TOO_LARGE;
        if (t[0] == -INFINITY || t[3] == -INFINITY || !pb_read_table(t, 1.0, &table))
            return PB_NOT_SUBMODULAR;
    }
    *where = -1;
    if (!(total < 1e307))
        return PB_TOO_LARGE;
    *big = !forbidden ? 0.0 : total > 0.0 ? 4.0 * total : 1.0;
    return PB_GRAPH_OK;
}

PB_INLINE double pb_unary(const pb_labelling *p, int64_t v, int label)
{
    return p->two_unaries ? p->unary[2 * v + label] : label ? p->unary[v] : 0.0;
}

/* Sets excesses and arcs, sorted by tail with the counts of pb_cut_check; `place[e]` is the arc a -> b of edge e. */
static void pb_cut_build(pb_cut *g, const pb_labelling *p, int64_t n, int64_t m, double big, double cap, int *place)
{
    pb_node *nodes = g->nodes;
    pb_arc *arcs = g->arcs;
    g->n = (int)n;
    for (int64_t v = 0; v < n; v++) {
        const double zero = pb_unary(p, v, 0), one = pb_unary(p, v, 1);
        nodes[v + 1].first += nodes[v].first;
        nodes[v].current = nodes[v].first;
        nodes[v].excess = one - zero;
        if (big > 0.0 && !(fabs(one - zero) <= DBL_MAX))
            nodes[v].excess = one == zero ? 0.0 : one > zero ? big : -big;
    }
    for (int64_t e = 0; e < m; e++) {
        const int a = (int)pb_end(p, 2 * e), b = (int)pb_end(p, 2 * e + 1);
        const int forth = nodes[a].current++, back = nodes[b].current++;
        place[e] = forth;
        arcs[forth].head = b;
        arcs[back].head = a;
        if (p->tables) {
            pb_table table;
            pb_read_table(p->pairs + 4 * e, big, &table);
            arcs[forth].residual = table.forth;
            arcs[back].residual = table.back;
            nodes[a].excess += table.a;
            nodes[b].excess += table.b;
        } else {
            /* unaries cannot send more than `cap`; limiting huge weights to it reduces rounding */
            arcs[forth].residual = arcs[back].residual = p->pairs[e] < cap ? p->pairs[e] : cap;
        }
        arcs[forth].sister = 2 * back + (arcs[back].residual > 0.0);
        arcs[back].sister = 2 * forth + (arcs[forth].residual > 0.0);
    }
}

/* A sum in blocks: its rounding error grows with 256 + n / 256, not with the number n of terms. */
typedef struct {
    double total, block;
    int n_block;
} pb_sum;

PB_INLINE void pb_add(pb_sum *sum, double term)
{
    sum->block += term;
    if (++sum->n_block == 256) {
        sum->total += sum->block;
        sum->block = 0.0;
        sum->n_block = 0;
    }
}

/* Computes the score of the labelling, and an upper bound on every score. For any numbers f_e
 *     max_y score(y) <= sum_e max_y [pair_e(y) - p_e y_a - q_e y_b] + sum_j max_y [unary_j(y) + y sum(p_e, q_e at j)],
 * with p_e = a_e - f_e, q_e = b_e + f_e; the maximum flow f makes it an equality. f is read from the residuals, and a
 * bound on the rounding of these sums is added, so that the result does not depend on the accuracy of the search. */
static void pb_cut_bound(pb_cut *g, const pb_labelling *p, int64_t n, int64_t m, double big, const int *place,
                         unsigned char *labels, double *value, double *upper)
{
    pb_node *nodes = g->nodes;
    const pb_arc *arcs = g->arcs;
    pb_sum score = {0.0, 0.0, 0}, bound = {0.0, 0.0, 0};
    double size = 0.0;
    int degree = 0;
    for (int64_t v = 0; v < n; v++) {
        labels[v] = nodes[v].label > 0;
        nodes[v].excess = 0.0;
    }
    for (int64_t e = 0; e < m; e++) {
        const int forth = place[e], back = arcs[forth].sister >> 1;
        const int b = arcs[forth].head, a = arcs[back].head;
        if (!p->tables) {
            const double weight = p->pairs[e], flow = 0.5 * (arcs[back].residual - arcs[forth].residual);
            const double excess = fabs(flow) - weight;
            nodes[a].excess -= flow;
            nodes[b].excess += flow;
            size += 2.0 * fabs(flow);
            if (excess > 0.0) {
                pb_add(&bound, excess);
                size += weight;
            }
            if (labels[a] != labels[b])
                pb_add(&score, -weight);
            continue;
        }
        pb_table table;
        pb_read_table(p->pairs + 4 * e, big, &table);
        const double flow = 0.5 * ((arcs[back].residual - table.back) + (table.forth - arcs[forth].residual));
        const double at_a = table.a - flow, at_b = table.b + flow;
        double most = table.score[0][0];
        most = fmax(most, table.score[0][1] - at_b);
        most = fmax(most, table.score[1][0] - at_a);
        most = fmax(most, table.score[1][1] - at_a - at_b);
        nodes[a].excess += at_a;
        nodes[b].excess += at_b;
        size += 2.0 * (fabs(at_a) + fabs(at_b)) + fabs(table.score[0][0]) + fabs(table.score[1][1]);
        size += (table.score[0][1] == -INFINITY ? 0.0 : fabs(table.score[0][1]))
            + (table.score[1][0] == -INFINITY ? 0.0 : fabs(table.score[1][0]));
        pb_add(&bound, most);
        pb_add(&score, table.score[labels[a]][labels[b]]);
    }
    for (int64_t v = 0; v < n; v++) {
        const double zero = pb_unary(p, v, 0), one = pb_unary(p, v, 1);
        size += (zero == -INFINITY ? 0.0 : fabs(zero)) + (one == -INFINITY ? 0.0 : fabs(one));
        pb_add(&bound, fmax(zero, one + nodes[v].excess));
        pb_add(&score, labels[v] ? one : zero);
        degree = nodes[v + 1].first - nodes[v].first > degree ? nodes[v + 1].first - nodes[v].first : degree;
    }
    *value = score.total + score.block;
    *upper = bound.total + bound.block;
    /* DBL_EPSILON is twice the unit roundoff: covers products of errors and the rounding of `size` itself */
    *upper += DBL_EPSILON * size * (double)((n + m < 256 ? n + m : 256 + (n + m) / 256) + degree + 8);
    /* `big` outweighs all finite scores together: if it has to be paid, every labelling is forbidden */
    if (*value == -INFINITY)
        *upper = -INFINITY;
    else if (*value > *upper)
        *upper = *value;
}

#endif
