// A bundle machine with the options of SHOGUN's DualLibQPBMSOSVM, each of which becomes
// a field of pybundle.h.
#pragma once
#include <cstdio>
#include <sstream>

#include "sosvm.h"

namespace toolbox {

// one model; one model and a proximal term; a model for each part and a proximal term
enum class Solver { BMRM, PPBMRM, P3BMRM };

struct TrainInfo {
    double primal, dual, gap, passes, train_error;
};

class BundleSOSVM : public StructuredSVM {
public:
    BundleSOSVM(const pb_api *api, const StructuredModel &model)
        : StructuredSVM(api, model, 1.0, 1e-2, "bmrm") {}

    // C sum of losses + 1/2 |w|^2, divided by C
    void set_C(double C) { settings_.lam = 1.0 / C; }
    void set_tol_rel(double tol) { settings_.tol = tol; }
    void set_tol_abs(double tol) { settings_.atol = tol; }
    void set_solver(Solver solver) { solver_kind_ = solver; }
    void set_K(double K) { K_ = K; }
    void set_T_max(int T_max) { T_max_ = T_max; }
    // remove inactive cutting planes, after so many iterations without weight
    void set_clean_ICP(bool clean) { clean_ICP_ = clean; }
    void set_clean_after(int steps) { clean_after_ = steps; }
    void set_cp_models(int models) { n_parts_ = models; }
    void set_store_train_info(bool store) { store_train_info_ = store; }
    void set_verbose(bool verbose) {
        settings_.verbose = verbose;
        settings_.log = [](const char *line, void *) {
            std::fprintf(stderr, "%s\n", line);
        };
    }
    const std::vector<TrainInfo> &train_info() const { return info_; }

protected:
    void init_model() override {
        std::ostringstream text;
        text << (solver_kind_ == Solver::BMRM ? "bmrm" : "prox-bmrm");
        if (solver_kind_ != Solver::BMRM) text << " K=" << K_ << " T=" << T_max_;
        text << " max_idle=" << (clean_ICP_ ? clean_after_ : 1 << 30);
        method_ = text.str();
        settings_.method = method_.c_str();
        if (solver_kind_ != Solver::P3BMRM) n_parts_ = 1;
        info_.clear();
        StructuredSVM::init_model();
    }

    void after_step(const pb_result &now) override {
        if (!store_train_info_) return;
        std::vector<double> w(model_.dim());
        check(api_->progress(solver_, nullptr, w.data()));
        double error = 0.0;
        for (int64_t i = 0; i < model_.n_examples(); i++)
            error += model_.loss(w.data(), i);
        error /= model_.n_examples();
        info_.push_back({now.fun, now.lower_bound, now.gap, now.n_passes, error});
    }

private:
    Solver solver_kind_ = Solver::BMRM;
    double K_ = 0.4;
    int T_max_ = 100, clean_after_ = 10;
    bool clean_ICP_ = true, store_train_info_ = false;
    std::vector<TrainInfo> info_;
};

}  // namespace toolbox
