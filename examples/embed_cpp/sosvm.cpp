#include "sosvm.h"

#include <algorithm>

namespace toolbox {

StructuredSVM::StructuredSVM(const pb_api *api, const StructuredModel &model,
                             double lam, double tol, const char *method)
    : method_(method), api_(api), model_(model), w_(model.dim()) {
    api_->settings(&settings_);
    settings_.lam = lam;
    settings_.tol = tol;
    settings_.method = method_.c_str();
}

void StructuredSVM::init_model() {
    pb_problem problem = PB_INIT(pb_problem);
    problem.dim = model_.dim();
    problem.n_examples = model_.n_examples();
    problem.label_size = model_.labelling_size();
    problem.max_entries = model_.max_entries();
    problem.solve = solve;
    problem.plane = plane;
    problem.n_parts = n_parts_;
    problem.user_data = const_cast<StructuredModel *>(&model_);
    api_->free(solver_);
    bounds_.clear();
    check(api_->init(&problem, &settings_, nullptr, &solver_));
}

void StructuredSVM::iteration() {
    int code = api_->step(solver_);
    check(code);
    pb_result now = PB_INIT(pb_result);
    check(api_->progress(solver_, &now, nullptr));
    bounds_.push_back(now.lower_bound);
    after_step(now);
    is_complete_ = code == PB_STOPPED;
}

void StructuredSVM::end_training() {
    check(api_->finish(solver_, &result_, w_.data()));
    check(is_complete_ ? PB_OK : api_->resume(solver_, nullptr));
}

void StructuredSVM::set_lam(double lam) {
    settings_.lam = lam;
    if (solver_ == nullptr) return;
    check(api_->resume(solver_, &settings_));
    is_complete_ = false;
}

// No exception may leave a function that C code calls.
int StructuredSVM::solve(const double *w, int64_t, int64_t example, int32_t *labelling,
                         double *value, double *, void *model) noexcept {
    try {
        const auto *structured = static_cast<const StructuredModel *>(model);
        *value = structured->argmax(w, example, labelling);
        return 0;
    } catch (...) {
        return 1;
    }
}

int StructuredSVM::plane(int64_t example, const int32_t *labelling, double *loss,
                         int64_t *n_entries, int32_t *indices, double *values,
                         void *model) noexcept {
    try {
        std::vector<std::pair<int32_t, double>> entries;
        const auto *structured = static_cast<const StructuredModel *>(model);
        *loss = structured->psi(example, labelling, entries);
        *n_entries = static_cast<int64_t>(entries.size());
        for (const auto &entry : entries) {
            *indices++ = entry.first;
            *values++ = entry.second;
        }
        return 0;
    } catch (...) {
        return 1;
    }
}

}  // namespace toolbox
