// A small machine-learning toolbox: iterative machines that can be stopped and continued, and the interface of a
// structured-output model. This file does not depend on pybundle.
#pragma once
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace toolbox {

// Training in iterations; `continue_train` continues after a limit or a request to stop.
class IterativeMachine {
public:
    virtual ~IterativeMachine() = default;

    void train() {
        iteration_ = 0;
        is_complete_ = false;
        init_model();
        continue_train();
    }

    void continue_train(int more = 1 << 30) {
        for (int done = 0; done < more && !is_complete_ && !wants_stop_; done++, iteration_++) iteration();
        end_training();
    }

    void set_stop(bool stop) { wants_stop_ = stop; }
    int n_iterations() const { return iteration_; }
    bool is_complete() const { return is_complete_; }

protected:
    virtual void init_model() = 0;      // everything before the first iteration
    virtual void iteration() = 0;       // sets is_complete_ with the last one
    virtual void end_training() = 0;    // makes the model usable, even if training is not complete

    bool is_complete_ = false;

private:
    int iteration_ = 0;
    bool wants_stop_ = false;
};

// Training data of a chain CRF: n sequences of `length` positions with D features x and one of K labels y each.
struct Sequences {
    int64_t n, length, K, D;
    std::vector<double> x;      // (n, length, D)
    std::vector<int> y;         // (n, length)
};

// Features, loss and decoding of an application, over its own examples. Called from several threads at once.
class StructuredModel {
public:
    virtual ~StructuredModel() = default;
    virtual int64_t n_examples() const = 0;
    virtual int64_t dim() const = 0;
    virtual int64_t labelling_size() const = 0;
    virtual int64_t max_entries() const = 0;
    // Loss plus score of the best labelling, minus the score of the truth
    virtual double argmax(const double *w, int64_t example, int32_t *labelling) const = 0;
    // Loss of a labelling; adds the pairs (index, value) of Psi(x, labelling) - Psi(x, truth)
    virtual double psi(int64_t example, const int32_t *labelling,
                       std::vector<std::pair<int32_t, double>> &entries) const = 0;
    // Loss of the labelling that w predicts, for training errors
    virtual double loss(const double *w, int64_t example) const = 0;
};

}  // namespace toolbox
