/* C interface of pybundle, version 2.
 *
 * Minimises F(w) = penalty(w) + R(w), R(w) = sum_p R_p(w), for a risk that consists of
 * C functions, and proves a lower bound. The usual penalty is lam/2 |w|^2.
 *
 *     #include <Python.h>
 *     #include "pybundle.h"                     in the folder pybundle.get_include()
 *
 *     const pb_api *pb = pb_import();           once, with the GIL; after NULL a Python
 *                                               exception is set
 *     pb_settings settings = PB_INIT(pb_settings);
 *     pb->settings(&settings);  settings.lam = 0.1;
 *     pb->init(&problem, &settings, NULL, &solver);        init_model
 *     while ((code = pb->step(solver)) == PB_RUNNING) {}   iteration; call it no longer
 *                                                          to stop
 *     pb->finish(solver, &result, w);           end_training: w, F(w) and its bound
 *     pb->resume(solver, NULL);                 continue as if without finish
 *     pb->free(solver);
 *
 * Versions. PB_ABI changes when a host compiled before could break; pb_import refuses
 * another number. With the same number structs and pb_api only grow, at the end. The
 * first field of a struct is its size as the caller knows it: PB_INIT sets it, and the
 * rest to zero. Fields that an older package does not know must be zero, or it returns
 * PB_PARAMETER.
 *
 * Threads. Every function may be called from any thread, with or without the GIL. Two
 * solvers may run in two threads at once, with the same bits as alone. Only one thread
 * at a time may use a solver: a second one gets PB_BUSY. The functions of a problem are
 * called without the GIL, and with n_jobs > 1 from several threads at once; `log` is
 * called without the GIL by the thread that steps. There is no global state.
 *
 * Ownership. `init` copies everything except the data behind `user_data` and
 * `log_data`, which must live until `free`. The text of `error` belongs to the solver
 * and is valid until the next call with it. `free` does nothing during a call with the
 * same solver, for example in a function of its problem: free it after that call. Free
 * all solvers before Py_FinalizeEx. After it `free` does nothing, the other functions
 * of solvers and the QP return PB_INTERNAL, and the decoders still work. Only the main
 * interpreter can be used, and no solver in a child of fork. Without Python.h only the
 * types are declared. */
#ifndef PYBUNDLE_H
#define PYBUNDLE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PB_ABI 2

/* -------------------------------------------------------------- functions of a problem
 * They return 0, or any other code for an error: the solver then stops with PB_ORACLE,
 * and its text names the code. */

/* R_part(w) and a subgradient. w (dim,); set value; slope (dim,) holds zeros: set its
 * entries or add to them. */
typedef int (*pb_risk_function)(const double *w, int64_t dim, int64_t part,
                                double *value, double *slope, void *user_data);

/* The labelling with the largest loss plus score, relative to the truth (value 0).
 *   labelling (label_size,): set it, it holds zeros; equal labellings have equal planes
 *   value: set it
 *   upper: a proven upper bound; set if the labelling may not be the best */
typedef int (*pb_solve_function)(const double *w, int64_t dim, int64_t example,
                                 int32_t *labelling, double *value, double *upper,
                                 void *user_data);

/* The plane loss + <psi, w> of a labelling; psi as entries (index, value) in any order;
 * entries with the same index are added.
 *   loss, n_entries: set them; indices, values (max_entries,): the first n_entries */
typedef int (*pb_plane_function)(int64_t example, const int32_t *labelling,
                                 double *loss, int64_t *n_entries, int32_t *indices,
                                 double *values, void *user_data);

/* A line of the progress table, without its end; from the thread of the step. */
typedef void (*pb_log_function)(const char *line, void *log_data);

/* Either `risk`, or `solve` and `plane`, which the block methods need. */
typedef struct {
    size_t size;                /* sizeof(pb_problem) */
    int64_t dim;
    int64_t n_parts;            /* with `risk` at least 1; with `solve` 0 leaves the
                                 * choice to the method */
    pb_risk_function risk;
    const double *lower_bounds; /* (n_parts,) proven lower bounds of the parts, or
                                 * NULL; not with `solve` */
    int64_t n_examples;
    int64_t label_size;         /* numbers in a labelling */
    int64_t max_entries;        /* largest number of entries of a plane */
    pb_solve_function solve;
    pb_plane_function plane;
    const double *sample_weight; /* (n_examples,) nonnegative factors of the examples,
                                 * or NULL: 1; not with `risk` */
    void *user_data;            /* passed to all three */
    int32_t smooth;             /* with `risk`: 1 if it is differentiable everywhere;
                                 * then "auto" takes "lbfgs" */
} pb_problem;

/* As the arguments of pybundle.minimize; `pb->settings` fills in the defaults. NULL and
 * 0 leave an option out, where nothing else is said. `init` and `resume` copy all
 * arrays.
 *
 * The penalty is the sum of what is set,
 *
 *   lam/2 |w|^2  +  l1 sum_k |w_k|  +  sum_g group_rates_g |w_g|_2,
 *
 * for lower <= w <= upper and |w| <= radius. With groups there are no bounds and no
 * `lams`; with a radius there is nothing else but lower bounds 0. Groups and
 * constraints are for the methods "auto" and "oca"; l1, lams and bounds also for
 * "lbfgs" if the problem is smooth. */
typedef struct {
    size_t size;
    const char *method;         /* its name, then its options as key=value with blanks
                                 * between: "prox-bmrm K=0.4 T=100 max_idle=10"; values
                                 * are numbers, true, false or words. Default "auto" */
    double lam;
    const double *lams;         /* (dim,) one for each weight in place of lam; an entry
                                 * 0 leaves the weight without penalty */
    double l1;
    int64_t n_groups;
    const int32_t *groups;      /* (dim,) the group 0..n_groups - 1 of each weight */
    const double *group_rates;  /* (n_groups,) */
    const double *lower, *upper; /* (dim,) each, NULL or infinite where there is none */
    double radius;
    /* linear constraints row_lower <= A w <= row_upper, A with n_rows rows in CSR */
    int64_t n_rows;
    const int64_t *row_starts;  /* (n_rows + 1,) the entries row_starts[i] up to
                                 * row_starts[i + 1] - 1 belong to row i */
    const int32_t *row_columns; /* (row_starts[n_rows],) */
    const double *row_values;   /* (row_starts[n_rows],) */
    const double *row_lower, *row_upper;    /* (n_rows,) as lower and upper */
    double tol;                 /* relative gap, default 1e-2 */
    double atol;                /* of fun - lower_bound; 0: default of minimize */
    double time_limit;          /* seconds from `init`, with pauses */
    int64_t max_iter;           /* default 10000 */
    int64_t memory_limit;       /* bytes */
    int64_t n_jobs;             /* threads, default 1; any number gives the same bits */
    int64_t random_state;
    int32_t is_mean;            /* 1: R(w) is divided by the number of examples in lam,
                                 * atol, fun and bounds (scale="mean") */
    int32_t verbose;            /* 1: some lines of progress a second */
    pb_log_function log;        /* NULL: stdout */
    void *log_data;
    const char *checkpoint;     /* path of a file to which the run is written from time
                                 * to time, when it stops, and by `free`. If the file
                                 * exists, the first step resumes from it, with the same
                                 * bits as without a break. Several runs need several
                                 * files */
    double checkpoint_every;    /* seconds; 0: 60, or more if writing takes long */
    int32_t evidence;           /* 1: keep what `save_certificate` needs to prove the
                                 * bound to others; not with a checkpoint */
} pb_settings;

/* The progress of a solver. */
typedef struct {
    size_t size;
    int32_t status;             /* a pb_status */
    int32_t certified;          /* fun and lower_bound were recomputed in float64,
                                 * rounding counted */
    double fun;                 /* F(w) of the best w so far */
    double lower_bound;
    double gap;                 /* (fun - lower_bound) / |fun| */
    int64_t n_iter;
    double n_passes;
    int64_t n_planes;
    double seconds;             /* from the first step */
} pb_result;

typedef enum {
    PB_CONVERGED = 0,
    PB_ITERATION_LIMIT = 1,
    PB_TIME_LIMIT = 2,
    PB_PAUSED = 3,
    PB_INTERRUPTED = 4,
    PB_STALLED = 5,
    PB_FAILED = 6,
    PB_INFERENCE = 7
} pb_status;

typedef enum {
    PB_OK = 0,                  /* of `step`: call it again */
    PB_RUNNING = 0,
    PB_STOPPED = 1,             /* of `step`: see the status */
    PB_PARAMETER = -1,          /* an argument is wrong */
    PB_ORACLE = -2,             /* a function of the problem failed */
    PB_NUMERICAL = -3,
    PB_MEMORY = -4,
    PB_BUSY = -5,               /* the solver is in use, see Threads */
    PB_KEYBOARD = -6,           /* Ctrl-C; the solver can continue */
    PB_INTERNAL = -7,           /* another error, or Python was finalised */
    PB_FILE = -8                /* a file cannot be read or written, or a checkpoint
                                 * belongs to another problem */
} pb_code;

typedef struct pb_solver pb_solver;

/* Functions that return int return a pb_code; `error` explains a negative one. */
typedef struct {
    int32_t abi;                /* PB_ABI of the library */
    size_t size;                /* sizeof(pb_api) there */
    /* Sets the defaults. */
    void (*settings)(pb_settings *settings);
    /* Creates a solver at w0 (dim,), or at 0 if w0 is NULL. `solver` is set even if the
     * code is negative, for `error` and `free`; it is NULL only if memory is short. */
    int (*init)(const pb_problem *problem, const pb_settings *settings,
                const double *w0, pb_solver **solver);
    /* One iteration; the first also computes the first planes. After PB_STOPPED it does
     * nothing but return that again, until `resume`. */
    int (*step)(pb_solver *solver);
    /* The numbers so far, not certified, and the best w so far (dim,), from which a
     * host computes its training error after a step. `result` or `w` may be NULL.
     * PB_PARAMETER before the first step, and between `resume` with settings and the
     * next step. */
    int (*progress)(pb_solver *solver, pb_result *result, double *w);
    /* A column of the history, which has a number for each iteration, also of those
     * before `resume` with NULL and in a checkpoint: "time", "n_passes", "primal" (F at
     * the point of the iteration), "best_primal", "lower_bound" or "gap". Sets the
     * first `room` entries of `values`, which may be NULL if room is 0. Returns the
     * number of iterations, or a negative code. */
    int64_t (*history)(pb_solver *solver, const char *column, int64_t room,
                       double *values);
    /* The certified result and the best w (dim,), after any step, even a failed one
     * unless it was the first. PB_PARAMETER in the same cases as `progress`; if the
     * first step failed, the text says why. `result` or `w` may be NULL. Takes a pass
     * over the data, and does not change the solver. */
    int (*finish)(pb_solver *solver, pb_result *result, double *w);
    /* With NULL further steps continue after the last one, with the same bits as
     * without `finish`. With new settings they start from the best w and all planes
     * found so far, for any lam; from w alone if the risk contradicted itself. With a
     * checkpoint they continue the run in its file, so that only tolerances and limits
     * may differ, or begin anew without a file: other settings need another path. */
    int (*resume)(pb_solver *solver, const pb_settings *settings);
    /* Before the first step: starts from the best w and all planes of `other`, a solver
     * of the same risk with any settings, as `resume` would. May ask the risk. Neither
     * may be in use, and `other` may be freed afterwards. */
    int (*start_from)(pb_solver *solver, pb_solver *other);
    /* Writes w, F(w), a bound, and with `evidence` the proof of the bound, which takes
     * passes over the data; pybundle.verify checks the file against the data. With
     * evidence the bound may be a little lower than that of `finish`. */
    int (*save_certificate)(pb_solver *solver, const char *path);
    /* The meaning of the last negative code, or the sentence of the status; never NULL.
     * It is for the thread that uses the solver: PB_BUSY in another thread leaves no
     * text. */
    const char *(*error)(pb_solver *solver);
    /* Does nothing for NULL, or if the solver is in use, see Ownership. */
    void (*free)(pb_solver *solver);
    const char *version;        /* of the package, for reports of errors */

    /* Decoders, for the functions of a problem: they need no solver and no GIL, and any
     * number of threads may call them. PB_PARAMETER if a size or a score is wrong, or
     * if nothing is allowed; a score -inf forbids. The memory is that of the caller,
     * matrices row by row. As the functions of pybundle.oracles with these names.
     *
     * Chains: score(y) = start[y_1] + sum_t unary[t, y_t]
     * + sum_t transition[y_t, y_t+1] + end[y_T]; unary (length, n_labels), transition
     * (n_labels, n_labels), start and end (n_labels,) or NULL. The labelling (length,)
     * of largest score, and this score: */
    int (*viterbi)(int64_t length, int64_t n_labels, const double *unary,
                   const double *transition, const double *start, const double *end,
                   int32_t *labelling, double *value);
    /* log sum_y exp(score(y)) and its gradient: the probabilities of the labels of each
     * position, nodes (length, n_labels), and the expected numbers of the transitions,
     * pairs (n_labels, n_labels). entropy may be NULL. */
    int (*forward_backward)(int64_t length, int64_t n_labels, const double *unary,
                            const double *transition, const double *start,
                            const double *end, double *log_partition, double *nodes,
                            double *pairs, double *entropy);
    /* Dependency trees over the words 1..n_words and the root 0: scores
     * (n_words + 1, n_words + 1), [head, word]. The heads (n_words + 1,) of the best
     * tree, heads[0] = -1; with single_root 1 one word has the root as its head. */
    int (*max_arborescence)(int64_t n_words, const double *scores, int32_t single_root,
                            int32_t *heads, double *value);
    /* log sum over trees of exp(score), and its gradient, of the shape of scores. */
    int (*arborescence_marginals)(int64_t n_words, const double *scores,
                                  int32_t single_root, double *marginals,
                                  double *log_partition);
    /* The labelling y in {0, 1}^n_nodes of largest score sum_i unary[i, y_i] + sum_e
     * pair_e(y_a, y_b), with unary (n_nodes, 2) and edges (n_edges, 2) of nodes a, b.
     * Either weights (n_edges,) >= 0: pair_e is -weight for different labels, else 0;
     * or tables (n_edges, 2, 2), submodular: t[0, 0] + t[1, 1] >= t[0, 1] + t[1, 0].
     * upper: a proven upper bound of the maximum, rounding counted. */
    int (*min_cut)(int64_t n_nodes, int64_t n_edges, const double *unary,
                   const int32_t *edges, const double *weights, const double *tables,
                   uint8_t *labels, double *value, double *upper);
    /* Minimises 1/2 x'Hx - f'x for x >= 0 (n,) whose sum over each part is 1, or at
     * most 1 where slack (n_parts,) is 1; slack may be NULL. parts (n,) are
     * 0..n_parts - 1, or -1 for a variable without a sum. x: a start, zeros allowed;
     * set. gap: the proven duality gap. Takes the GIL. PB_NUMERICAL if the gap stayed
     * above tol max(|q|, 1e-3 (1/2 x'Hx + |f'x|)); x and gap are set then, too. */
    int (*simplex_qp)(int64_t n, const double *H, const double *f, const int32_t *parts,
                      int64_t n_parts, const uint8_t *slack, double tol, double *x,
                      double *gap);
} pb_api;

/* pb_problem problem = PB_INIT(pb_problem); */
#ifdef __cplusplus
}
template <class Struct> inline Struct pb_zeroed() {
    Struct made = Struct();
    made.size = sizeof(Struct);
    return made;
}
#define PB_INIT(type) pb_zeroed<type>()
extern "C" {
#else
#define PB_INIT(type) {.size = sizeof(type)}
#endif

#ifdef Py_PYTHON_H
/* The functions of the installed package; NULL with a Python exception if it is missing
 * or has another version. */
static inline const pb_api *pb_import(void) {
    const pb_api *api;
    PyObject *module = PyImport_ImportModule("pybundle.capi");
    if (module == NULL) return NULL;
    Py_DECREF(module);
    api = (const pb_api *)PyCapsule_Import("pybundle.capi._C_API", 0);
    if (api != NULL && (api->abi != PB_ABI || api->size < sizeof(pb_api))) {
        PyErr_Format(PyExc_ImportError,
                     "compiled for version %d of the C interface of pybundle "
                     "(%zu bytes), the package installed has version %d (%zu bytes); "
                     "compile against its header",
                     PB_ABI, sizeof(pb_api), (int)api->abi, api->size);
        return NULL;
    }
    return api;
}
#endif

#ifdef __cplusplus
}
#endif
#endif
