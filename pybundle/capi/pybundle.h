/* C interface of pybundle, version 1.
 *
 * Minimises F(w) = lam/2 |w|^2 + R(w), R(w) = sum_p R_p(w), for a risk given as C functions, and proves a lower bound.
 *
 *     #include <Python.h>
 *     #include "pybundle.h"                       where pybundle.get_include() says
 *
 *     const pb_api *pb = pb_import();             once, with the GIL; NULL: a Python exception is set
 *     pb_settings settings = PB_INIT(pb_settings);
 *     pb->settings(&settings);  settings.lam = 0.1;
 *     pb->init(&problem, &settings, NULL, &solver);        init_model
 *     while ((code = pb->step(solver)) == PB_RUNNING) {}   iteration
 *     pb->finish(solver, &result, w);                      end_training: w, F(w) and the certified bound
 *     pb->resume(solver, NULL);                            continue, as if there had been no finish
 *     pb->free(solver);
 *
 * Versions. PB_ABI changes where a host compiled before could break; pb_import refuses another one. Within one, structs
 * and pb_api grow at the end only. The first field of a struct is its size as the caller knows it: PB_INIT
 * sets it, and the rest to zero. Fields that an older package does not know must be zero: PB_PARAMETER.
 *
 * Threads. Every function may be called from any thread, with or without the GIL. Two solvers may run in two threads at
 * once and give the same bits as alone. One solver is for one thread at a time: a second gets PB_BUSY. The functions of
 * a problem are called without the GIL, with n_jobs > 1 from several threads at once. There is no global state.
 *
 * Ownership. `init` copies everything but what `user_data` points to, which must live until `free`. The text of
 * `error` belongs to the solver and lasts until the next call with it. `free` does nothing while a call with the solver
 * is under way, as in a function of its own problem: free it after that call. Solvers are freed before Py_FinalizeEx;
 * `free` afterwards does nothing, and other functions give PB_INTERNAL. There is no interpreter but the main one, and no use of
 * a solver in a child of fork. Without Python.h only the types are declared. */
#ifndef PYBUNDLE_H
#define PYBUNDLE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PB_ABI 1

/* ------------------------------------------------------------------ functions of a problem
 * They return 0, or a code of their own for an error: the solver stops with PB_ORACLE, and its text tells the code. */

/* R_part(w) and a subgradient.  w (dim,); value: to be set; slope (dim,): zeros, to be set or added to */
typedef int (*pb_risk_function)(const double *w, int64_t dim, int64_t part, double *value, double *slope,
                                void *user_data);

/* The labelling of largest loss plus score, relative to the truth, whose value is 0.
 *   labelling (label_size,): zeros, to be set; equal ones mean equal planes; value: to be set
 *   upper: a proven upper bound of the maximum, to be set only where the labelling may not be the best */
typedef int (*pb_solve_function)(const double *w, int64_t dim, int64_t example, int32_t *labelling, double *value,
                                 double *upper, void *user_data);

/* The plane loss + <psi, w> of a labelling; psi as entries (index, value) in any order, those of one index add up.
 *   loss, n_entries: to be set; indices, values (max_entries,): the first n_entries to be set */
typedef int (*pb_plane_function)(int64_t example, const int32_t *labelling, double *loss, int64_t *n_entries,
                                 int32_t *indices, double *values, void *user_data);

/* Either `risk`, or `solve` and `plane`, which the block methods need. */
typedef struct {
    size_t size;                    /* sizeof(pb_problem) */
    int64_t dim;
    int64_t n_parts;                /* of `risk`, at least 1; with `solve`: 0 leaves the choice to the method */
    pb_risk_function risk;
    const double *lower_bounds;     /* (n_parts,) proven lower bounds of the parts, NULL for none; not with `solve` */
    int64_t n_examples;
    int64_t label_size;             /* numbers of a labelling */
    int64_t max_entries;            /* most entries of a plane */
    pb_solve_function solve;
    pb_plane_function plane;
    void *user_data;                /* handed to all three */
} pb_problem;

/* As the arguments of pybundle.minimize; `pb->settings` fills in the defaults. */
typedef struct {
    size_t size;
    const char *method;             /* "auto" */
    double lam;                     /* one of lam and radius must be set, the other is 0 */
    double radius;
    double tol;                     /* relative gap */
    double atol;                    /* of fun - lower_bound; 0 for 1e-12 times F(0) */
    double time_limit;              /* seconds, 0 for none; counted from `init`, pauses included */
    int64_t max_iter;
    int64_t memory_limit;           /* bytes, 0 for none */
    int64_t n_jobs;                 /* threads; any number gives the same bits */
    int64_t random_state;
} pb_settings;

/* Where a solver stands. */
typedef struct {
    size_t size;
    int32_t status;                 /* a pb_status */
    int32_t certified;              /* whether fun and lower_bound were recomputed in float64, rounding counted */
    double fun;                     /* F(w) of the best w so far */
    double lower_bound;
    double gap;                     /* (fun - lower_bound) / |fun| */
    int64_t n_iter;
    double n_passes;
    int64_t n_planes;
} pb_result;

typedef enum {
    PB_CONVERGED = 0, PB_ITERATION_LIMIT = 1, PB_TIME_LIMIT = 2, PB_PAUSED = 3, PB_INTERRUPTED = 4, PB_STALLED = 5,
    PB_FAILED = 6
} pb_status;

typedef enum {
    PB_OK = 0,                      /* of `step`: call it again */
    PB_RUNNING = 0,
    PB_STOPPED = 1,                 /* of `step`: converged, or a limit is reached, see the status */
    PB_PARAMETER = -1,              /* an argument is wrong */
    PB_ORACLE = -2,                 /* a function of the problem failed or broke its contract */
    PB_NUMERICAL = -3,
    PB_MEMORY = -4,
    PB_BUSY = -5,                   /* the solver is in use by another thread, or by the caller of this function */
    PB_KEYBOARD = -6,               /* Ctrl-C; the solver can continue */
    PB_INTERNAL = -7                /* an error of another kind, or Python has been finalised */
} pb_code;

typedef struct pb_solver pb_solver;

/* Functions that return int give a pb_code; the text of a negative one is in `error`. */
typedef struct {
    int32_t abi;                    /* PB_ABI of the library */
    size_t size;                    /* sizeof(pb_api) there */
    /* Fills in the defaults. */
    void (*settings)(pb_settings *settings);
    /* A solver at w0 (dim,), or at 0 for NULL. `solver` is set also where the code is negative, for `error` and
     * `free`; to NULL only where memory is short. */
    int (*init)(const pb_problem *problem, const pb_settings *settings, const double *w0, pb_solver **solver);
    /* One iteration; the first one asks for the first planes, too. After PB_STOPPED none, until `resume`. */
    int (*step)(pb_solver *solver);
    /* Numbers so far, not certified; PB_PARAMETER before the first step, and after `resume` with settings before the
     * next. */
    int (*progress)(pb_solver *solver, pb_result *result);
    /* Certificate and best w (dim,), after any step, also a failed one unless it was the first; PB_PARAMETER where
     * `progress` gives that; where the first step failed, its text tells why. NULLs are left out. Takes a pass over
     * the data. The solver stays as it is. */
    int (*finish)(pb_solver *solver, pb_result *result, double *w);
    /* NULL: further steps continue where the last one ended, with the same bits as without `finish`. New settings: they
     * start from the best w with all planes found so far, of whatever lam; from the w alone where the risk has
     * contradicted itself. */
    int (*resume)(pb_solver *solver, const pb_settings *settings);
    /* What the last negative code meant, or the sentence of the status; never NULL. The text is the solver's, until
     * the next call on it: for the thread that the solver is for. PB_BUSY, which others get, leaves none. */
    const char *(*error)(pb_solver *solver);
    /* NULL is fine. A solver in use stays as it is, see Ownership: there it is to be freed later. */
    void (*free)(pb_solver *solver);
    const char *version;                /* of the package, for reports of errors */
} pb_api;

/* pb_problem problem = PB_INIT(pb_problem); */
#ifdef __cplusplus
}
template <class Struct> inline Struct pb_zeroed() { Struct made = Struct(); made.size = sizeof(Struct); return made; }
#define PB_INIT(type) pb_zeroed<type>()
extern "C" {
#else
#define PB_INIT(type) {sizeof(type)}
#endif

#ifdef Py_PYTHON_H
/* The functions of the installed package; NULL with a Python exception where it is missing or another version. */
static inline const pb_api *pb_import(void) {
    const pb_api *api;
    PyObject *module = PyImport_ImportModule("pybundle.capi");
    if (module == NULL) return NULL;
    Py_DECREF(module);
    api = (const pb_api *)PyCapsule_Import("pybundle.capi._C_API", 0);
    if (api != NULL && (api->abi != PB_ABI || api->size < sizeof(pb_api))) {
        PyErr_Format(PyExc_ImportError, "compiled for version %d of the C interface of pybundle (%zu bytes), the "
                     "package installed has version %d (%zu bytes); compile against its header", PB_ABI,
                     sizeof(pb_api), (int)api->abi, api->size);
        return NULL;
    }
    return api;
}
#endif

#ifdef __cplusplus
}
#endif
#endif
