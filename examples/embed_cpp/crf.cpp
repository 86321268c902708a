#include "crf.h"

namespace toolbox {

ChainCRF::ChainCRF(const pb_api *api, const Sequences &data, double lam, double tol)
    : api_(api), data_(data), w_(dim()) {
    api_->settings(&settings_);
    settings_.lam = lam;
    settings_.tol = tol;
    settings_.evidence = 1;
}

void ChainCRF::init_model() {
    std::vector<double> zeros(data_.n);     // a negative log-likelihood is at least 0
    pb_problem problem = PB_INIT(pb_problem);
    problem.dim = dim();
    problem.n_parts = data_.n;                  // a part is an example
    problem.risk = risk;
    problem.smooth = 1;
    problem.lower_bounds = zeros.data();
    problem.user_data = this;
    api_->free(solver_);
    check(api_->init(&problem, &settings_, nullptr, &solver_));
}

void ChainCRF::end_training() {
    check(api_->finish(solver_, &result_, w_.data()));
    check(is_complete_ ? PB_OK : api_->resume(solver_, nullptr));
}

std::vector<double> ChainCRF::scores(const double *w, int64_t example) const {
    std::vector<double> unary(data_.length * data_.K);
    const double *x = &data_.x[example * data_.length * data_.D];
    for (int64_t t = 0; t < data_.length; t++)
        for (int64_t k = 0; k < data_.K; k++)
            for (int64_t d = 0; d < data_.D; d++)
                unary[t * data_.K + k] += w[k * data_.D + d] * x[t * data_.D + d];
    return unary;
}

std::vector<int> ChainCRF::predict(int64_t example) const {
    std::vector<int32_t> labelling(data_.length);
    double value;
    const std::vector<double> unary = scores(w_.data(), example);
    const double *transition = &w_[data_.K * data_.D];
    if (api_->viterbi(data_.length, data_.K, unary.data(), transition, nullptr, nullptr,
                      labelling.data(), &value) != PB_OK)
        throw std::runtime_error("no labelling");
    return {labelling.begin(), labelling.end()};
}

// log Z - score(truth), and its gradient: expected features minus those of the truth.
// No exception may leave it.
int ChainCRF::risk(const double *w, int64_t, int64_t part, double *value, double *slope,
                   void *machine) noexcept {
    try {
        const auto &self = *static_cast<const ChainCRF *>(machine);
        const Sequences &data = self.data_;
        const int64_t T = data.length, K = data.K, D = data.D;
        const double *x = &data.x[part * T * D], *transition = w + K * D;
        const int *y = &data.y[part * T];
        std::vector<double> unary = self.scores(w, part), nodes(T * K), pairs(K * K);
        const int code = self.api_->forward_backward(
            T, K, unary.data(), transition, nullptr, nullptr, value, nodes.data(),
            pairs.data(), nullptr);
        if (code != PB_OK) return code;
        for (int64_t t = 0; t < T; t++) {
            *value -= unary[t * K + y[t]];
            nodes[t * K + y[t]] -= 1.0;
            if (t == 0) continue;
            *value -= transition[y[t - 1] * K + y[t]];
            pairs[y[t - 1] * K + y[t]] -= 1.0;
        }
        for (int64_t t = 0; t < T; t++)
            for (int64_t k = 0; k < K; k++)
                for (int64_t d = 0; d < D; d++)
                    slope[k * D + d] += nodes[t * K + k] * x[t * D + d];
        for (int64_t j = 0; j < K * K; j++) slope[K * D + j] += pairs[j];
        return 0;
    } catch (...) {
        return 1;
    }
}

}  // namespace toolbox
