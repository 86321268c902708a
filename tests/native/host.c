/* A host without Python.h: everything through the table of functions it is handed. Called without the GIL. */
#include "multiclass.c"
#include "pybundle.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Sizes of the structs, in the order of the header. */
void sizes(int64_t *found) {
    found[0] = sizeof(pb_problem);
    found[1] = sizeof(pb_settings);
    found[2] = sizeof(pb_result);
    found[3] = sizeof(pb_api);
}

/* Trains until the solver stops; `pause_at` > 0 finishes and resumes after so many steps. trace (2 * room,): best value
 * and bound of each step. Returns the number of steps, or a negative code with its text. */
int64_t train(const pb_api *api, const data *s, const char *method, double lam, double tol, int64_t n_jobs,
              int by_example, int64_t pause_at, int64_t room, double *trace, double *w, pb_result *result, char *text) {
    pb_problem problem = PB_INIT(pb_problem);
    pb_settings settings = PB_INIT(pb_settings);
    pb_solver *solver;
    double zeros[64] = {0.0};
    int64_t steps = 0;
    int code;
    problem.dim = s->K * s->d;
    problem.user_data = (void *)s;
    if (by_example) {
        problem.n_examples = s->n;
        problem.label_size = 1;
        problem.max_entries = 2 * s->d;
        problem.solve = solve;
        problem.plane = plane;
    } else {
        problem.risk = risk;
        problem.n_parts = s->P;
        problem.lower_bounds = zeros;
    }
    api->settings(&settings);
    settings.method = method;
    settings.lam = lam;
    settings.tol = tol;
    settings.n_jobs = n_jobs;
    code = api->init(&problem, &settings, NULL, &solver);
    while (code == PB_RUNNING && steps < room) {
        code = api->step(solver);
        if (code < 0) break;
        pb_result now = PB_INIT(pb_result);
        if (api->progress(solver, &now, NULL) != PB_OK) break;
        trace[2 * steps] = now.fun;
        trace[2 * steps + 1] = now.lower_bound;
        if (++steps == pause_at && code == PB_RUNNING) {
            code = api->finish(solver, &now, NULL);
            if (code == PB_OK) code = api->resume(solver, NULL);
        }
    }
    snprintf(text, 400, "%s", api->error(solver));
    result->size = sizeof *result;
    if (steps) {
        int closing = api->finish(solver, result, w);
        if (code >= 0) code = closing;
    }
    api->free(solver);
    return code < 0 ? code : steps;
}

/* What a host may do wrong; 0, or the number of the first call that was answered otherwise than with a code. */
int misuse(const pb_api *api, const data *s) {
    pb_problem problem = PB_INIT(pb_problem);
    pb_settings settings = PB_INIT(pb_settings);
    pb_result result = PB_INIT(pb_result);
    pb_solver *solver;
    problem.dim = s->K * s->d;
    api->settings(&settings);
    settings.lam = 1.0;
    if (api->abi != PB_ABI || api->size != sizeof(pb_api)) return 1;
    if (api->step(NULL) != PB_PARAMETER || api->finish(NULL, &result, NULL) != PB_PARAMETER) return 2;
    api->free(NULL);
    if (api->init(&problem, &settings, NULL, &solver) != PB_PARAMETER) return 3;        /* no function */
    if (!strstr(api->error(solver), "must not be NULL") || api->step(solver) != PB_PARAMETER) return 4;
    api->free(solver);
    problem.risk = risk;
    problem.n_parts = s->P;
    problem.user_data = (void *)s;
    problem.size = 0;
    if (api->init(&problem, &settings, NULL, &solver) != PB_PARAMETER) return 5;
    if (!strstr(api->error(solver), "make it with PB_INIT(pb_problem)")) return 6;
    api->free(solver);
    if (api->init(NULL, &settings, NULL, &solver) != PB_PARAMETER) return 7;
    api->free(solver);
    problem.size = sizeof problem;
    if (api->init(&problem, &settings, NULL, &solver) != PB_OK) return 8;
    if (strcmp(api->error(solver), "running") || api->progress(solver, &result, NULL) != PB_PARAMETER) return 9;
    if (api->step(solver) != PB_RUNNING || api->finish(solver, NULL, NULL) != PB_OK) return 10;
    result.size = offsetof(pb_result, gap);                 /* of a host that knows no gap yet */
    result.gap = -7.0;
    if (api->progress(solver, &result, NULL) != PB_OK || result.gap != -7.0 || !(result.fun > 0.0)) return 11;
    result.size = 0;
    if (api->progress(solver, &result, NULL) != PB_PARAMETER) return 12;
    settings.tol = -1.0;
    if (api->resume(solver, &settings) != PB_PARAMETER || !strstr(api->error(solver), "tol")) return 13;
    if (api->resume(solver, NULL) != PB_OK || api->step(solver) < 0) return 14;     /* it is still the old one */
    if (api->history(solver, NULL, 0, NULL) != PB_PARAMETER || !strstr(api->error(solver), "NULL")) return 15;
    settings.tol = 1e-2;
    settings.method = NULL;
    if (api->resume(solver, &settings) != PB_PARAMETER || !strstr(api->error(solver), "method")) return 16;
    api->free(solver);
    if (api->init(&problem, &settings, NULL, &solver) != PB_PARAMETER) return 17;       /* no method */
    if (api->progress(solver, &result, NULL) != PB_PARAMETER || api->finish(solver, NULL, NULL) != PB_PARAMETER
        || api->resume(solver, NULL) != PB_PARAMETER || !strstr(api->error(solver), "free it")) return 18;
    api->free(solver);
    api->settings(&settings);
    settings.lam = 1.0;
    if (api->init(&problem, NULL, NULL, &solver) != PB_PARAMETER) return 19;
    if (!strstr(api->error(solver), "pb_settings must not be NULL")) return 20;
    api->free(solver);
    if (api->init(&problem, &settings, NULL, NULL) != PB_PARAMETER) return 21;
    if (api->progress(NULL, &result, NULL) != PB_PARAMETER || api->resume(NULL, &settings) != PB_PARAMETER) return 22;
    if (strcmp(api->error(NULL), "there is no solver")) return 23;
    api->settings(NULL);
    problem.lower_bounds = NULL;                            /* none are known */
    if (api->init(&problem, &settings, NULL, &solver) != PB_OK || api->step(solver) < 0) return 24;
    api->free(solver);
    problem.risk = NULL;
    problem.solve = solve;                                  /* but no plane */
    problem.n_examples = s->n;
    problem.label_size = 1;
    if (api->init(&problem, &settings, NULL, &solver) != PB_PARAMETER) return 25;
    api->free(solver);
    problem.plane = plane;
    problem.risk = risk;                                    /* which of the two? */
    if (api->init(&problem, &settings, NULL, &solver) != PB_PARAMETER || !strstr(api->error(solver), "got both"))
        return 26;
    api->free(solver);
    return 0;
}

/* A risk whose first call frees the solver that calls it. */
typedef struct {
    const pb_api *api;
    pb_solver *solver;
    int answer;                 /* of `step` in there, and after `free` */
} own_freer;

static int freeing_risk(const double *w, int64_t dim, int64_t part, double *value, double *slope, void *user_data) {
    own_freer *own = (own_freer *)user_data;
    (void)dim, (void)part;
    own->api->free(own->solver);
    own->answer = own->api->step(own->solver);
    *value = (w[0] - 1.0) * (w[0] - 1.0);
    slope[0] = 2.0 * (w[0] - 1.0);
    return 0;
}

/* `free` within a call of the same solver: 0, or the number of the first wrong answer. */
int free_within(const pb_api *api) {
    pb_problem problem = PB_INIT(pb_problem);
    pb_settings settings = PB_INIT(pb_settings);
    pb_result result = PB_INIT(pb_result);
    own_freer own = {api, NULL, 0};
    int code;
    problem.dim = problem.n_parts = 1;
    problem.risk = freeing_risk;
    problem.user_data = &own;
    api->settings(&settings);
    settings.lam = 1.0;
    if (api->init(&problem, &settings, NULL, &own.solver) != PB_OK) return 1;
    while ((code = api->step(own.solver)) == PB_RUNNING) if (own.answer != PB_BUSY) return 2;
    if (code != PB_STOPPED || api->finish(own.solver, &result, NULL) != PB_OK || !result.certified) return 3;
    api->free(own.solver);      /* this one is meant */
    return 0;
}

static int too_low(const double *w, int64_t dim, int64_t example, int32_t *labelling, double *value, double *upper,
                   void *user_data) {
    int code = solve(w, dim, example, labelling, value, upper, user_data);
    *value = -5.0;
    return code;
}

/* An oracle whose value is below that of the truth; codes that differ from what is expected. */
int below_the_truth(const pb_api *api, const data *s, pb_result *result, char *text) {
    pb_problem problem = PB_INIT(pb_problem);
    pb_settings settings = PB_INIT(pb_settings);
    pb_solver *solver;
    int code;
    problem.dim = s->K * s->d;
    problem.user_data = (void *)s;
    problem.n_examples = s->n;
    problem.label_size = 1;
    problem.max_entries = 2 * s->d;
    problem.solve = too_low;
    problem.plane = plane;
    api->settings(&settings);
    settings.lam = 0.5;
    settings.method = "bcfw";
    if (api->init(&problem, &settings, NULL, &solver) != PB_OK) return 1;
    while ((code = api->step(solver)) == PB_RUNNING) {}
    snprintf(text, 400, "%s", api->error(solver));
    result->size = sizeof *result;
    if (api->finish(solver, result, NULL) != PB_OK) return 2;
    api->free(solver);
    return code != PB_ORACLE ? 3 : 0;
}

/* A host of a later version, whose structs have one more field; 0, or the number of the first wrong answer. */
int newer(const pb_api *api, const data *s) {
    struct { pb_problem known; const char *later; } problem = {PB_INIT(pb_problem), NULL};
    struct { pb_settings known; double later; } settings = {PB_INIT(pb_settings), 0.0};
    struct { pb_result known; double later; } result = {PB_INIT(pb_result), 7.0};
    pb_solver *solver;
    problem.known.size = sizeof problem;
    settings.known.size = sizeof settings;
    result.known.size = sizeof result;
    problem.known.dim = s->K * s->d;
    problem.known.user_data = (void *)s;
    problem.known.risk = risk;
    problem.known.n_parts = s->P;
    api->settings(&settings.known);
    settings.known.lam = 1.0;
    if (api->init(&problem.known, &settings.known, NULL, &solver) != PB_OK) return 1;   /* not used: fine */
    if (api->step(solver) < 0 || api->finish(solver, &result.known, NULL) != PB_OK || result.later != 7.0) return 2;
    settings.later = 0.5;
    if (api->resume(solver, &settings.known) != PB_PARAMETER) return 3;
    if (!strstr(api->error(solver), "pb_settings sets an option at byte")) return 4;
    if (!strstr(api->error(solver), "needs a newer pybundle")) return 5;
    if (api->resume(solver, NULL) != PB_OK || api->step(solver) < 0) return 6;          /* it is still the old one */
    api->free(solver);
    if (api->init(&problem.known, &settings.known, NULL, &solver) != PB_PARAMETER) return 7;
    if (api->step(solver) != PB_PARAMETER || !strstr(api->error(solver), "needs a newer pybundle")) return 8;
    api->free(solver);
    settings.later = 0.0;
    problem.later = "name";
    if (api->init(&problem.known, &settings.known, NULL, &solver) != PB_PARAMETER) return 9;
    if (!strstr(api->error(solver), "pb_problem sets an option at byte")) return 10;
    api->free(solver);
    return 0;
}

/* What `finish` says after a first step that failed, and after the second call of it. */
int first_pass(const pb_api *api, const data *s, char *step, char *finish) {
    pb_problem problem = PB_INIT(pb_problem);
    pb_settings settings = PB_INIT(pb_settings);
    pb_solver *solver;
    int codes = 0;
    problem.dim = s->K * s->d;
    problem.user_data = (void *)s;
    problem.risk = risk;
    problem.n_parts = s->P;
    api->settings(&settings);
    settings.lam = 1.0;
    if (api->init(&problem, &settings, NULL, &solver) != PB_OK) return 1;
    codes += api->step(solver) != PB_ORACLE;
    snprintf(step, 400, "%s", api->error(solver));
    codes += 10 * (api->finish(solver, NULL, NULL) != PB_PARAMETER);
    codes += 100 * (api->finish(solver, NULL, NULL) != PB_PARAMETER);
    snprintf(finish, 400, "%s", api->error(solver));
    api->free(solver);
    return codes;
}

/* A solver that nobody frees before Python ends, as one in static storage. */
static const pb_api *left_api;
static pb_solver *left;

static void after_the_end(void) {
    pb_problem problem = PB_INIT(pb_problem);
    pb_settings settings = PB_INIT(pb_settings);
    pb_result result = PB_INIT(pb_result);
    pb_solver *other = left;
    double w[64] = {0.0};
    int32_t labels[2];
    left_api->settings(&settings);
    settings.lam = 1.0;
    printf("%d ", left_api->init(&problem, &settings, NULL, &other));
    printf("%d %d %d %d %d\n", left_api->step(left), left_api->progress(left, &result, NULL),
           left_api->finish(left, &result, w), left_api->resume(left, &settings), other == NULL);
    printf("%d %d %d ", (int)left_api->history(left, "gap", 0, NULL), left_api->start_from(left, left),
           left_api->save_certificate(left, "proof"));
    printf("%d\n", left_api->viterbi(2, 1, w, w, NULL, NULL, labels, w + 2));
    printf("%s\n%s %s\n", left_api->error(left), settings.method, left_api->version);
    left_api->free(left);
    left_api->free(NULL);
    printf("freed\n");
    fflush(stdout);
}

int leave_behind(const pb_api *api, const data *s) {
    pb_problem problem = PB_INIT(pb_problem);
    pb_settings settings = PB_INIT(pb_settings);
    problem.dim = s->K * s->d;
    problem.user_data = (void *)s;
    problem.risk = risk;
    problem.n_parts = s->P;
    api->settings(&settings);
    settings.lam = 1.0;
    left_api = api;
    if (api->init(&problem, &settings, NULL, &left) != PB_OK || api->step(left) < 0) return 1;
    return atexit(after_the_end);
}
