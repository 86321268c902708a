// The toolbox's chain CRF: sums over labellings by pybundle's forward_backward, training by its solver.
#pragma once
#include "toolbox.h"

#include "pybundle.h"

namespace toolbox {

// Minimises lam/2 |w|^2 - sum_i log p(y_i | x_i), for K x D weights of features and K x K of transitions.
class ChainCRF : public IterativeMachine {
public:
    // `api` comes from pb_import(); data and api must outlive the machine.
    ChainCRF(const pb_api *api, const Sequences &data, double lam, double tol);
    ~ChainCRF() override { api_->free(solver_); }
    ChainCRF(const ChainCRF &) = delete;
    ChainCRF &operator=(const ChainCRF &) = delete;

    int64_t dim() const { return data_.K * (data_.D + data_.K); }
    const std::vector<double> &w() const { return w_; }
    const pb_result &certificate() const { return result_; }
    std::vector<int> predict(int64_t example) const;
    void save_proof(const char *path) { check(api_->save_certificate(solver_, path)); }

protected:
    void init_model() override;
    void iteration() override { is_complete_ = check(api_->step(solver_)) == PB_STOPPED; }
    void end_training() override;

private:
    int check(int code) const {
        if (code < 0) throw std::runtime_error(api_->error(solver_));
        return code;
    }
    std::vector<double> scores(const double *w, int64_t example) const;
    static int risk(const double *w, int64_t dim, int64_t part, double *value, double *slope, void *machine) noexcept;

    const pb_api *api_;
    const Sequences &data_;
    pb_settings settings_ = PB_INIT(pb_settings);
    pb_result result_ = PB_INIT(pb_result);
    pb_solver *solver_ = nullptr;
    std::vector<double> w_;
};

}  // namespace toolbox
