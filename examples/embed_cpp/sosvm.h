// The toolbox's structured-output SVM, solved by pybundle through its C interface.
#pragma once
#include "toolbox.h"

#include "pybundle.h"

namespace toolbox {

class StructuredSVM : public IterativeMachine {
public:
    // `api` comes from pb_import(); model and api must outlive the machine.
    StructuredSVM(const pb_api *api, const StructuredModel &model, double lam, double tol, const char *method);
    ~StructuredSVM() override { api_->free(solver_); }
    StructuredSVM(const StructuredSVM &) = delete;
    StructuredSVM &operator=(const StructuredSVM &) = delete;

    void set_n_jobs(int64_t n_jobs) { settings_.n_jobs = n_jobs; }
    void set_lam(double lam);                   // a trained machine warm-starts from all planes found so far
    const std::vector<double> &w() const { return w_; }
    const pb_result &certificate() const { return result_; }
    const std::vector<double> &bounds() const { return bounds_; }      // after each iteration

protected:
    void init_model() override;
    void iteration() override;
    void end_training() override;

    virtual void after_step(const pb_result &) {}

    void check(int code) const {
        if (code < 0) throw std::runtime_error(api_->error(solver_));
    }
    pb_settings settings_ = PB_INIT(pb_settings);
    std::string method_;
    int64_t n_parts_ = 0;                       // 0 leaves the number to the method
    const pb_api *api_;
    const StructuredModel &model_;
    pb_solver *solver_ = nullptr;

private:
    static int solve(const double *w, int64_t dim, int64_t example, int32_t *labelling, double *value, double *upper,
                     void *model) noexcept;
    static int plane(int64_t example, const int32_t *labelling, double *loss, int64_t *n_entries, int32_t *indices,
                     double *values, void *model) noexcept;

    pb_result result_ = PB_INIT(pb_result);
    std::vector<double> w_, bounds_;
};

}  // namespace toolbox
