/* A host without Python.h: everything through the table of functions it is handed. Called without the GIL. */
#include "multiclass.c"
#include "pybundle.h"

#include <stdio.h>
#include <string.h>

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
        if (api->progress(solver, &now) != PB_OK) break;
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
