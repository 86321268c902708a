/* C code that minimises |w - target|_1 + lam/2 |w|^2 in steps. */
#include <Python.h>
#include <math.h>

#include "pybundle.h"

static int risk(const double *w, int64_t dim, int64_t part, double *value,
                double *slope, void *user_data) {
    const double *target = user_data;
    (void)part; /* there is one part, 0 */
    *value = 0.0;
    for (int64_t k = 0; k < dim; k++) {
        *value += fabs(w[k] - target[k]);
        slope[k] = w[k] > target[k] ? 1.0 : -1.0;
    }
    return 0;
}

int main(void) {
    Py_Initialize();
    const pb_api *pb = pb_import();
    if (!pb) {
        PyErr_Print();
        return 1;
    }
    double target[] = {1.0, -2.0, 3.0}, lower_bounds[] = {0.0}, w[3];
    pb_problem problem = PB_INIT(pb_problem);
    problem.dim = 3;
    problem.n_parts = 1;
    problem.risk = risk;
    problem.lower_bounds = lower_bounds;
    problem.user_data = target;
    pb_settings settings = PB_INIT(pb_settings);
    pb->settings(&settings);
    settings.lam = 0.1;

    pb_solver *solver;
    pb_result result = PB_INIT(pb_result);
    int code = pb->init(&problem, &settings, NULL, &solver);
    while (code == PB_RUNNING) {
        code = pb->step(solver); /* look at pb->progress, or end the loop early */
    }
    if (code == PB_STOPPED) code = pb->finish(solver, &result, w);
    if (code < 0)
        fprintf(stderr, "%s\n", pb->error(solver));
    else
        printf("%.3f <= minimum <= %.3f at %.2f %.2f %.2f\n", result.lower_bound,
               result.fun, w[0], w[1], w[2]);
    pb->free(solver);
    Py_FinalizeEx();
    return code < 0;
}
