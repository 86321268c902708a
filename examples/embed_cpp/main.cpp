// Trains chain models, two of them in two threads, in a C++ program that embeds Python; prints them in hexadecimal;
// compare.py compares them with the same models in Python.
//
//     ./host [python [proof]]      python: an interpreter with pybundle installed; proof: file for a certificate
#include <Python.h>

#include "bundle_sosvm.h"
#include "crf.h"

#include <cstdio>
#include <cstring>
#include <memory>
#include <thread>

namespace {

// Numbers in [-1, 1) that are the same in every language.
class Numbers {
public:
    explicit Numbers(uint32_t seed) : state_(seed) {}
    double next() {
        state_ = state_ * 1664525u + 1013904223u;
        return (state_ >> 8) / 8388608.0 - 1.0;
    }

private:
    uint32_t state_;
};

// Sequences of D features with one of K labels each: K emissions of D weights, then K x K transitions. Hamming loss.
class Chains : public toolbox::StructuredModel {
public:
    static constexpr int N = 25, T = 6, K = 3, D = 4;

    explicit Chains(uint32_t seed) : x_(N * T * D), y_(N * T) {
        Numbers numbers(seed);
        for (double &x : x_) x = numbers.next();
        for (int at = 0; at < N * T; at++)          // usually the largest of the first K features
            for (int k = 1; k < K; k++)
                if (x_[at * D + k] + 0.5 * numbers.next() > x_[at * D + y_[at]]) y_[at] = k;
    }

    int64_t n_examples() const override { return N; }
    int64_t dim() const override { return K * D + K * K; }
    int64_t labelling_size() const override { return T; }
    int64_t max_entries() const override { return 2 * T * (D + 1); }

    toolbox::Sequences sequences() const { return {N, T, K, D, x_, y_}; }

    double argmax(const double *w, int64_t i, int32_t *labelling) const override {
        return decode(w, i, labelling, true);
    }

    double loss(const double *w, int64_t i) const override {
        int32_t labelling[T];
        decode(w, i, labelling, false);
        double wrong = 0.0;
        for (int t = 0; t < T; t++) wrong += labelling[t] != y(i, t);
        return wrong;
    }

    double psi(int64_t i, const int32_t *labelling, std::vector<std::pair<int32_t, double>> &entries) const override {
        double loss = 0.0;
        for (int t = 0; t < T; t++) {
            loss += labelling[t] != y(i, t);
            for (int d = 0; labelling[t] != y(i, t) && d < D; d++) {
                entries.emplace_back(labelling[t] * D + d, x_[(i * T + t) * D + d]);
                entries.emplace_back(y(i, t) * D + d, -x_[(i * T + t) * D + d]);
            }
            if (t == 0) continue;
            entries.emplace_back(K * D + labelling[t - 1] * K + labelling[t], 1.0);
            entries.emplace_back(K * D + y(i, t - 1) * K + y(i, t), -1.0);
        }
        return loss;
    }

private:
    // Value relative to the truth of the best labelling, of score plus loss or of the score alone
    double decode(const double *w, int64_t i, int32_t *labelling, bool has_loss) const {
        double best[T][K];
        int back[T][K];
        for (int t = 0; t < T; t++)
            for (int k = 0; k < K; k++) {
                double emission = (has_loss && k != y(i, t)) + emit(w, i, t, k);
                best[t][k] = emission;
                back[t][k] = 0;
                for (int j = 0; t > 0 && j < K; j++) {
                    double found = best[t - 1][j] + w[K * D + j * K + k] + emission;
                    if (j == 0 || found > best[t][k]) best[t][k] = found, back[t][k] = j;
                }
            }
        int k = 0;
        for (int j = 1; j < K; j++)
            if (best[T - 1][j] > best[T - 1][k]) k = j;
        double value = best[T - 1][k], truth = 0.0;
        for (int t = T; t-- > 0; k = back[t][k]) labelling[t] = k;
        for (int t = 0; t < T; t++) {
            truth += emit(w, i, t, y(i, t));
            if (t > 0) truth += w[K * D + y(i, t - 1) * K + y(i, t)];
        }
        return value - truth;
    }

    int y(int64_t i, int t) const { return y_[i * T + t]; }
    double emit(const double *w, int64_t i, int t, int k) const {
        double total = 0.0;
        for (int d = 0; d < D; d++) total += w[k * D + d] * x_[(i * T + t) * D + d];
        return total;
    }

    std::vector<double> x_;
    std::vector<int> y_;
};

void print(const char *name, const toolbox::StructuredSVM &machine) {
    std::printf("%s %d %a %a", name, machine.n_iterations(), machine.certificate().fun,
                machine.certificate().lower_bound);
    for (double bound : machine.bounds()) std::printf(" %a", bound);
    std::printf("\n%s.w", name);
    for (double w : machine.w()) std::printf(" %a", w);
    std::printf("\n");
}

void print(const char *name, const toolbox::BundleSOSVM &machine) {
    print(name, static_cast<const toolbox::StructuredSVM &>(machine));
    std::printf("%s.errors", name);
    for (const auto &info : machine.train_info()) std::printf(" %a", info.train_error);
    std::printf("\n");
}

int run(const pb_api *api, const char *proof) {
    Chains first(1), second(2);
    toolbox::StructuredSVM blocks(api, first, 0.5, 1e-4, "prox-bcfw"), bundle(api, second, 2.0, 1e-4, "oca");
    bundle.set_n_jobs(2);
    std::thread other([&] { blocks.train(); });     // no thread holds the GIL here
    bundle.train();
    other.join();
    print("blocks", blocks);
    print("bundle", bundle);

    toolbox::StructuredSVM paused(api, first, 0.5, 1e-4, "prox-bcfw");
    paused.set_stop(true);
    try {                                           // a stopped run has no result yet
        paused.train();
        return 1;
    } catch (const std::runtime_error &error) {
        if (!std::strstr(error.what(), "there is no point")) return 1;
    }
    paused.set_stop(false);
    while (!paused.is_complete()) paused.continue_train(2);
    print("paused", paused);

    bundle.set_lam(1.0);
    bundle.continue_train();
    print("warm", bundle);

    toolbox::BundleSOSVM shogun(api, first);
    shogun.set_C(2.0);
    shogun.set_tol_rel(1e-3);
    shogun.set_solver(toolbox::Solver::P3BMRM);
    shogun.set_K(0.4);
    shogun.set_T_max(100);
    shogun.set_clean_after(10);
    shogun.set_cp_models(4);
    shogun.set_verbose(true);
    shogun.set_store_train_info(true);
    shogun.train();
    print("shogun", shogun);

    const toolbox::Sequences data = first.sequences();
    toolbox::ChainCRF crf(api, data, 0.5, 1e-6);
    crf.train();
    std::printf("crf %d %a %a", crf.n_iterations(), crf.certificate().fun, crf.certificate().lower_bound);
    for (int label : crf.predict(0)) std::printf(" %d", label);
    std::printf("\ncrf.w");
    for (double w : crf.w()) std::printf(" %a", w);
    std::printf("\n");
    if (proof != nullptr) crf.save_proof(proof);
    return 0;
}

}  // namespace

int main(int argc, char **argv) {
    PyConfig config;
    PyConfig_InitPythonConfig(&config);
    PyStatus status = PyStatus_Ok();
    if (argc > 1) status = PyConfig_SetBytesString(&config, &config.program_name, argv[1]);
    if (!PyStatus_Exception(status)) status = Py_InitializeFromConfig(&config);
    PyConfig_Clear(&config);
    if (PyStatus_Exception(status)) Py_ExitStatusException(status);

    const pb_api *api = pb_import();
    if (api == nullptr) {
        PyErr_Print();
        return 1;
    }
    PyThreadState *released = PyEval_SaveThread();
    int code = 1;
    try {
        code = run(api, argc > 2 ? argv[2] : nullptr);
    } catch (const std::exception &error) {
        std::fprintf(stderr, "%s\n", error.what());
    }
    PyEval_RestoreThread(released);
    return Py_FinalizeEx() < 0 ? 1 : code;
}
