"""Displays draw the data they are given, label their axes and refuse what they cannot draw."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest

import pybundle as pb

matplotlib = pytest.importorskip("matplotlib")
pytest.importorskip("sklearn")
matplotlib.use("Agg")

from matplotlib import pyplot  # noqa: E402

from pybundle import plotting  # noqa: E402
from pybundle.prox import L1, ElasticNet  # noqa: E402

X = np.array([[0.0, 1.0, 2.0, 0.5], [1.0, 0.0, 0.0, 1.0], [2.0, 2.0, 1.0, 0.0], [0.0, 3.0, 1.0, 1.0]] * 3)
Y = ["a", "b", "c", "a"] * 3
TOKENS = [["the", "dog", "barks"], ["dogs", "bark"], ["the", "cat"]]
TAGS = [["DET", "N", "V"], ["N", "V"], ["DET", "N"]]


@pytest.fixture(autouse=True)
def no_figure_is_left():
    yield
    pyplot.close("all")


@pytest.fixture(scope="module")
def result():
    return pb.minimize(pb.risks.BinaryHinge([[1.0], [2.0], [-1.0]], [1, 1, -1]), lam=1.0)


@pytest.fixture(scope="module")
def svm():
    return pb.MulticlassSVM(tol=1e-2).fit(X, Y)


@pytest.fixture(scope="module")
def chain():
    return pb.ChainSVM(C=10.0).fit(TOKENS, TAGS)


def displays(result, svm, chain):
    """One of every class, not yet drawn."""
    return [
        plotting.ConvergenceDisplay({"": result.history}),
        plotting.KernelWeightsDisplay([[0.5, 0.5], [0.9, 0.1]]),
        plotting.ParseTreeDisplay([2, 0], ["dogs", "bark"]),
        plotting.PathDisplay([1.0, 10.0], {"": [0.2, 0.1]}),
        plotting.SegmentationDisplay(np.eye(4), [("x", 0), ("y", 2)]),
        plotting.TransitionDisplay(np.eye(3)),
        plotting.WeightImagesDisplay([np.eye(3)]),
    ]


def test_every_display_follows_the_convention(result, svm, chain):
    made = displays(result, svm, chain)
    assert {type(display).__name__ for display in made} == {n for n in plotting.__all__ if n.endswith("Display")}
    for display in made:
        assert display.plot() is display and display.ax_.figure is display.figure_
        figure, axis = pyplot.subplots()
        n_before = len(pyplot.get_fignums())
        display.plot(ax=axis)
        assert display.ax_ is axis and display.figure_ is figure
        assert len(pyplot.get_fignums()) == n_before, "a figure of its own was opened"
        figure.canvas.draw()
        with pytest.raises(pb.InputTypeError, match="ax must be matplotlib axes, got int"):
            display.plot(ax=3)
        pyplot.close("all")


def test_without_matplotlib_the_error_names_the_extra(monkeypatch, result, svm, chain):
    for name in ("matplotlib", "matplotlib.figure", "matplotlib.pyplot"):
        monkeypatch.setitem(sys.modules, name, None)
    for display in displays(result, svm, chain):
        with pytest.raises(ImportError, match=r"pip install 'pybundle-ml\[plot\]'"):
            display.plot()
    with pytest.raises(ImportError, match="matplotlib"):
        plotting.plot_convergence(result)


# ------------------------------------------------------------------ convergence
@pytest.mark.parametrize("wrap", [lambda r: r, lambda r: [r, r], lambda r: {"a": r, "b": r}])
def test_plot_convergence_has_two_panels_and_no_pyplot_figure(wrap, result):
    figure = plotting.plot_convergence(wrap(result), tol=1e-2, title="t")
    passes, seconds = figure.axes
    assert passes.get_yscale() == "log" and passes.get_xlabel() == "passes over the data"
    assert seconds.get_xlabel() == "seconds" and passes.get_ylabel() == "relative gap"
    assert not pyplot.get_fignums()


def test_convergence_draws_the_positive_gaps_of_every_run(result):
    display = plotting.ConvergenceDisplay.from_results({"one": result, "two": result}, tol=1e-2)
    for lines, field in zip(display.lines_, ("n_passes", "time"), strict=True):
        for line, name in zip(lines, ("one", "two"), strict=True):
            gap = result.history["gap"]
            shown = np.isfinite(gap) & (gap > 0.0)
            np.testing.assert_array_equal(line.get_ydata(), gap[shown])
            np.testing.assert_array_equal(line.get_xdata(), result.history[field][shown])
            assert line.get_label() == name
    assert len({line.get_color() for line in display.lines_[0]}) == 2


def test_convergence_of_estimators_has_their_tolerance(svm):
    other = pb.MulticlassSVM(tol=1e-2, method="bmrm").fit(X, Y)
    display = plotting.ConvergenceDisplay.from_estimator({"auto": svm, "bmrm": other}, x="time")
    assert display.tol == 1e-2 and len(display.axes_) == 1 and display.ax_.get_xlabel() == "seconds"
    looser = pb.MulticlassSVM(tol=1e-1).fit(X, Y)
    assert plotting.ConvergenceDisplay.from_estimator([svm, looser]).tol is None


@pytest.mark.parametrize("wrong", [3, [1, 2], {"a": None}, [SimpleNamespace(history={"gap": []})]])
def test_convergence_refuses_what_is_no_result(wrong):
    with pytest.raises(pb.InputTypeError, match="results must"):
        plotting.plot_convergence(wrong)
    with pytest.raises(pb.InputTypeError, match="estimator must"):
        plotting.ConvergenceDisplay.from_estimator(wrong)


def test_convergence_refuses_wrong_numbers_of_axes(result):
    with pytest.raises(pb.ParameterError, match="at least one"):
        plotting.plot_convergence([])
    with pytest.raises(pb.ParameterError, match="x must be one of 'n_passes', 'time'"):
        plotting.ConvergenceDisplay.from_results(result, x="iterations")
    with pytest.raises(pb.ParameterError, match="ax must be 1 Axes, got 3"):
        plotting.ConvergenceDisplay.from_results(result, ax=pyplot.subplots(1, 3)[1])
    with pytest.raises(pb.InputTypeError, match="fitted estimators"):
        plotting.ConvergenceDisplay.from_estimator(pb.MulticlassSVM())


DRAWERS = [
    (plotting.ConvergenceDisplay.from_estimator, pb.MulticlassSVM, ()),
    (plotting.KernelWeightsDisplay.from_estimator, pb.OnlineMKLClassifier, ()),
    (plotting.KernelWeightsDisplay.from_estimator, lambda: pb.mkl.OnlineMKL([pb.mkl.Linear()]), ()),
    (plotting.ParseTreeDisplay.from_estimator, pb.DependencyParser, ([("a", "b")],)),
    (plotting.PathDisplay.from_estimator, pb.MulticlassSVMCV, ()),
    (plotting.SegmentationDisplay.from_estimator, pb.SegmentationSVM, (np.zeros((3, 4)),)),
    (plotting.SegmentationDisplay.from_estimator, pb.BinaryLabelingSVM, (np.zeros((3, 4)),)),
    (plotting.TransitionDisplay.from_estimator, pb.ChainCRF, ()),
    (plotting.WeightImagesDisplay.from_estimator, pb.MulticlassSVM, ((2, 2),)),
    (plotting.WeightImagesDisplay.from_estimator, pb.SegmentationSVM, ()),
]


@pytest.mark.parametrize("draw, make, more", DRAWERS)
def test_unfitted_estimators_and_results_are_told_where_to_go(draw, make, more, result):
    with pytest.raises(pb.InputTypeError, match=r"^estimator must .* which is not fitted; call fit first"):
        draw(make(), *more)
    for given in (result, [result]):
        with pytest.raises(pb.InputTypeError, match=r"^estimator must .* ConvergenceDisplay\.from_results"):
            draw(given, *more)


def test_estimators_where_results_belong_are_told_where_to_go(svm):
    for given in (svm, [svm], {"mine": svm}):
        with pytest.raises(pb.InputTypeError, match=r"^results must .* MulticlassSVM; draw it by from_estimator"):
            plotting.ConvergenceDisplay.from_results(given)
    with pytest.raises(pb.InputTypeError, match=r"^results must .* MulticlassSVM; draw it by from_estimator"):
        plotting.PathDisplay.from_results(svm, [1.0])
    with pytest.raises(pb.InputTypeError, match="MulticlassSVM, which is not fitted"):
        plotting.ConvergenceDisplay.from_results(pb.MulticlassSVM())


# ------------------------------------------------------------------ paths
def test_path_draws_errors_of_weights_and_marks_the_smallest():
    risk = pb.risks.BinaryHinge([[1.0], [2.0], [-1.0], [0.5]], [1, 1, -1, -1])
    results = pb.path(risk, [10.0, 1.0, 0.1])
    errors = {"norm": np.linalg.norm, "given": [3.0, 1.0, 2.0]}
    display = plotting.PathDisplay.from_results(results, errors, ylabel="e")
    norm, given = display.lines_
    assert norm.get_xdata().tolist() == [0.1, 1.0, 10.0] and given.get_ydata().tolist() == [2.0, 1.0, 3.0]
    np.testing.assert_allclose(norm.get_ydata(), [np.linalg.norm(result.x) for result in results[::-1]])
    assert display.best == 1.0 and display.ax_.get_xscale() == "log" and display.ax_.xaxis_inverted()
    assert display.ax_.get_xlabel() == "lam" and display.ax_.get_ylabel() == "e"
    display.plot(ax=display.ax_)
    assert display.ax_.xaxis_inverted(), "drawn twice, the axis still runs from strong to weak"


def test_a_path_of_penalties_is_drawn_over_their_rates():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 3))
    risk = pb.risks.BinaryHinge(X, np.where(X[:, 0] > 0.0, 1, -1))
    display = plotting.PathDisplay.from_results(pb.path(risk, [L1(3.0), L1(0.3)]), [2.0, 1.0])
    assert (display.values.tolist(), display.best, display.ax_.get_xlabel()) == ([3.0, 0.3], 0.3, "rate")
    assert display.ax_.xaxis_inverted()
    results = pb.path(risk, [ElasticNet(3.0, 1.0), ElasticNet(0.3, 1.0)])
    assert plotting.PathDisplay.from_results(results, [2.0, 1.0], values=[3.0, 0.3]).best == 0.3
    with pytest.raises(pb.ParameterError, match=r"values must be given .* ElasticNet"):
        plotting.PathDisplay.from_results(results, [2.0, 1.0])
    for values in ([3.0], [3.0, 0.0]):
        with pytest.raises(pb.ParameterError, match="values must be 2 numbers > 0"):
            plotting.PathDisplay.from_results(results, [2.0, 1.0], values=values)


def test_path_without_a_finite_error_marks_nothing():
    display = plotting.PathDisplay.from_results([SimpleNamespace(lam=1.0)], [np.nan])
    assert display.best is None and not len(display.lines_[0].get_xdata())


@pytest.mark.parametrize("search", [
    lambda: pb.MulticlassSVMCV([0.01, 0.1, 1.0], cv=2, tol=1e-2).fit(X, Y),
    lambda: pb.ChainSVMCV([0.1, 1.0], cv=3).fit(TOKENS * 2, TAGS * 2),
])
def test_path_of_a_search_is_that_of_its_scores(search):
    svm = search()
    display = plotting.PathDisplay.from_estimator(svm)
    np.testing.assert_allclose(display.lines_[0].get_ydata(), 100.0 * (1.0 - svm.scores_).mean(axis=0))
    assert display.lines_[0].get_xdata().tolist() == svm.Cs_.tolist() and display.best == svm.C_
    assert display.ax_.get_xlabel() == "C" and display.ax_.get_ylabel() == "validation error, %"
    assert not display.ax_.xaxis_inverted()


def test_path_leaves_out_what_a_stopped_fold_lacks():
    search = SimpleNamespace(scores_=np.array([[0.5, np.nan], [0.7, 0.9]]), Cs_=np.array([1.0, 2.0]), C_=1.0,
                             scoring="f1_macro")
    display = plotting.PathDisplay.from_estimator(search)
    assert display.lines_[0].get_xdata().tolist() == [1.0] and display.ax_.get_ylabel() == "f1_macro"
    vars(search).update(scoring=None, metric="ndcg@5")      # of a ranker, which has no error
    display = plotting.PathDisplay.from_estimator(search)
    assert display.lines_[0].get_ydata().tolist() == [0.6] and display.ax_.get_ylabel() == "ndcg@5"


def test_path_refuses(svm, result):
    with pytest.raises(pb.InputTypeError, match="MulticlassSVMCV or ChainSVMCV, got MulticlassSVM without scores_"):
        plotting.PathDisplay.from_estimator(svm)
    with pytest.raises(pb.InputTypeError, match="which have lam"):
        plotting.PathDisplay.from_results([result], [0.1])
    with pytest.raises(pb.ParameterError, match="one error for each of the 2 values"):
        plotting.PathDisplay([1.0, 2.0], {"a": [1.0]})
    with pytest.raises(pb.ParameterError, match="must not be empty"):
        plotting.PathDisplay.from_results([], [])


# ------------------------------------------------------------------ weights
def test_weight_images_hold_every_weight_of_a_class(svm):
    display = plotting.WeightImagesDisplay.from_estimator(svm, (2, 2), n_columns=2)
    assert display.names == ["a", "b", "c"]
    drawn = display.image_.get_array().compressed()
    assert sorted(drawn) == sorted(svm.coef_.ravel())
    assert display.image_.norm.vmax == -display.image_.norm.vmin == np.abs(svm.coef_).max()
    assert display.colorbar_.ax.get_ylabel() == "weight"


def test_weight_images_of_two_classes_chains_and_segmentations(chain):
    two = pb.MulticlassSVM().fit(X, ["no", "yes"] * 6)
    assert plotting.WeightImagesDisplay.from_estimator(two, (2, 2)).names == ["yes"]
    pixels = pb.ChainSVM().fit([X[:4], X[4:]], [Y[:4], Y[4:]])
    display = plotting.WeightImagesDisplay.from_estimator(pixels, (4, 1))
    np.testing.assert_array_equal(display.images[0], pixels.token_coef_[0].reshape(4, 1))
    images = [np.array([[0.0], [1.0], [1.0]]), np.array([[1.0], [1.0], [1.0], [0.0]])]
    cut = pb.SegmentationSVM(C=10.0).fit(images, [[("gap", 0), ("bar", 1)], [("bar", 0), ("gap", 3)]])
    display = plotting.WeightImagesDisplay.from_estimator(cut)
    assert display.names == ["bar", "gap"] and [image.shape for image in display.images] == [(1, 3), (1, 1)]
    assert plotting.WeightImagesDisplay.from_estimator(cut, width=2).names == ["bar"]
    with pytest.raises(pb.ParameterError, match=r"width must be that of a template, \[1, 2, 3\], got 7"):
        plotting.WeightImagesDisplay.from_estimator(cut, width=7)


@pytest.mark.parametrize("figsize", [(9.0, 4.0), (5.0, 3.0), (14.0, 6.0)])
def test_titles_of_weight_images_stay_off_the_images_above(figsize):
    figure, axes = pyplot.subplots(1, 2, figsize=figsize, layout="constrained")
    display = plotting.WeightImagesDisplay([np.eye(8)] * 10, n_columns=5).plot(axes[1])
    figure.canvas.draw()
    cell = display.image_.get_array().shape[0] / 2
    for k, text in enumerate(axes[1].texts):
        box = text.get_window_extent().transformed(axes[1].transData.inverted())
        assert min(box.y0, box.y1) > k // 5 * cell - 0.5, "a title reaches into the row above"


def test_weight_images_refuse(svm, chain):
    with pytest.raises(pb.ParameterError, match="shape must have 4 pixels, as many as features, got 3 x 1"):
        plotting.WeightImagesDisplay.from_estimator(svm, (3, 1))
    with pytest.raises(pb.ParameterError, match="shape must be"):
        plotting.WeightImagesDisplay.from_estimator(svm)
    with pytest.raises(pb.InputTypeError, match="which is not fitted"):
        plotting.WeightImagesDisplay.from_estimator(pb.MulticlassSVM(), (2, 2))
    with pytest.raises(pb.InputTypeError, match="weights of single features by class"):
        parser = SimpleNamespace(coef_=np.zeros(4))
        plotting.WeightImagesDisplay.from_estimator(parser, (2, 2))
    with pytest.raises(pb.ParameterError, match="names must be 1 names, got 2"):
        plotting.WeightImagesDisplay([np.eye(2)], names=["a", "b"])
    with pytest.raises(pb.ParameterError, match="at least one image"):
        plotting.WeightImagesDisplay([])


def test_transitions_stand_below_first_and_left_of_last_labels(chain):
    display = plotting.TransitionDisplay.from_estimator(chain)
    table = display.image_.get_array()
    np.testing.assert_array_equal(table[1:, :3], chain.transition_coef_)
    np.testing.assert_array_equal(table[0, :3], chain.start_coef_)
    np.testing.assert_array_equal(table[1:, 3], chain.end_coef_)
    assert table.mask[0, 3] and table.mask.sum() == 1
    assert [text.get_text() for text in display.ax_.get_yticklabels()] == ["start", "DET", "N", "V"]
    assert len(display.texts_) == 15 and all(abs(float(text.get_text())) <= 1.0 for text in display.texts_)
    alone = plotting.TransitionDisplay.from_estimator(chain, ends=False)
    assert alone.image_.get_array().shape == (3, 3)
    assert not plotting.TransitionDisplay(np.eye(13)).plot().texts_


def test_transitions_refuse(svm):
    with pytest.raises(pb.InputTypeError, match="ChainSVM or ChainCRF, got MulticlassSVM"):
        plotting.TransitionDisplay.from_estimator(svm)
    with pytest.raises(pb.InputTypeError, match="ChainSVM, which is not fitted"):
        plotting.TransitionDisplay.from_estimator(pb.ChainSVM())
    with pytest.raises(pb.ParameterError, match=r"transition must have shape \(K, K\), got \(2, 3\)"):
        plotting.TransitionDisplay(np.zeros((2, 3)))
    with pytest.raises(pb.ParameterError, match=r"end must have shape \(2,\), got \(3,\)"):
        plotting.TransitionDisplay(np.eye(2), end=np.zeros(3))


def test_kernel_weights_over_epochs():
    kernels = [pb.mkl.Linear(), pb.mkl.Gaussian(sigma=1.0)]
    learner = pb.mkl.OnlineMKL(kernels, lam=1e-2, n_epochs=3, random_state=0).fit(X, Y)
    display = plotting.KernelWeightsDisplay.from_estimator(learner, names=["linear", "Gaussian"])
    np.testing.assert_array_equal(np.column_stack([line.get_ydata() for line in display.lines_]),
                                  learner.history_["weights"])
    assert [line.get_label() for line in display.lines_] == ["linear", "Gaussian"]
    assert display.ax_.get_xlabel() == "epoch" and display.ax_.get_ylim()[0] == 0.0
    with pytest.raises(pb.ParameterError, match="names must be 2 names, got 1"):
        plotting.KernelWeightsDisplay.from_estimator(learner, names=["linear"])


def test_kernel_weights_name_their_groups():
    kernels = [pb.mkl.Linear(), np.dot]
    shown = plotting.KernelWeightsDisplay.from_estimator
    twice = pb.mkl.OnlineMKL([*map(pb.mkl.Features, np.arange(4).reshape(2, 2)), pb.mkl.Gaussian(2.0)], n_epochs=2)
    assert shown(twice.fit(X, Y)).names == ["0 Features()", "1 Features()", "Gaussian(sigma=2.0)"]
    svm = pb.OnlineMKLClassifier(kernels=[pb.mkl.Linear(), pb.mkl.Gaussian(2.0)], n_epochs=2).fit(X, Y)
    assert shown(svm).names == ["Linear()", "Gaussian(sigma=2.0)"]
    learner = SimpleNamespace(groups=kernels, history_={"weights": np.full((2, 3), 1 / 3), "n_passes": [1, 2]})
    display = plotting.KernelWeightsDisplay.from_estimator(learner)
    assert display.names == ["Linear()", "dot", "label pairs"] and display.xlabel == "iteration"
    learner.model = SimpleNamespace(template_names=["a", "b", "c"])
    assert plotting.KernelWeightsDisplay.from_estimator(learner).names == ["a", "b", "c"]
    learner = SimpleNamespace(groups=None, history_={"weights": np.full((2, 2), 0.5)})
    assert plotting.KernelWeightsDisplay.from_estimator(learner).names == ["0", "1"]


def test_kernel_weights_of_many_groups_name_the_largest():
    weights = np.tile(np.arange(1.0, 13.0) / 78.0, (4, 1))
    display = plotting.KernelWeightsDisplay(weights).plot()
    shown = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert shown == ["11", "10", "9", "8", "7", "6", "5", "5 others"] and len(display.lines_) == 12


def test_kernel_weights_refuse(svm):
    with pytest.raises(pb.InputTypeError, match="OnlineMKL, got MulticlassSVM"):
        plotting.KernelWeightsDisplay.from_estimator(svm)
    with pytest.raises(pb.ParameterError, match="n_epochs, n_groups"):
        plotting.KernelWeightsDisplay([0.5, 0.5])


# ------------------------------------------------------------------ structures
def test_arcs_end_at_their_words_and_wrong_ones_differ():
    display = plotting.ParseTreeDisplay.from_predictions([2, 3, 0], ["the", "dog", "barks"], truth=[-1, 3, 3, 0])
    ends = [arrow.get_path().vertices for arrow in display.arcs_]
    assert len(display.arcs_) == 3 and len(display.missed_) == 1 and all(len(points) for points in ends)
    wrong, right = (display.arcs_[k].get_edgecolor() for k in (0, 1))
    assert wrong != right == display.arcs_[2].get_edgecolor()
    assert display.heads.tolist() == [2, 3, 0] and display.truth.tolist() == [3, 3, 0]


def test_relations_stand_on_their_arcs():
    pairs, truth = [(2, "det"), (3, "obj"), (0, "root")], [(3, "det"), (3, "nsubj"), (0, "root")]
    display = plotting.ParseTreeDisplay.from_predictions(pairs, ["the", "dog", "barks"], truth=truth)
    texts = [(text.get_text(), round(text.get_position()[0], 1)) for text in display.relations_]
    assert texts == [("det", 1.5), ("det", 2.0), ("obj, not nsubj", 2.5), ("root", 3.1)]
    wrong, other, right = (arrow.get_edgecolor() for arrow in display.arcs_)
    assert wrong == other != right and len(display.missed_) == 1
    display = plotting.ParseTreeDisplay.from_predictions([2, 3, 0], ["the", "dog", "barks"], truth=truth)
    assert [text.get_text() for text in display.relations_] == ["det"] and len(display.missed_) == 1
    sentences = [[("dogs", "N"), ("bark", "V")]]
    parser = pb.DependencyParser(C=10.0, hash_bits=10, relations=True).fit(sentences, [[(2, "nsubj"), (0, "root")]])
    display = plotting.ParseTreeDisplay.from_estimator(parser, sentences[0], truth=[(2, "nsubj"), (0, "root")])
    assert [text.get_text() for text in display.relations_] == ["nsubj", "root"] and not display.missed_


def test_parse_of_a_sentence_has_its_words():
    sentences = [[{"word": "dogs", "pos": "N"}, {"word": "bark", "pos": "V"}], [("cats", "N"), ("sleep", "V")]]
    parser = pb.DependencyParser(C=10.0, hash_bits=10).fit(sentences, [[2, 0], [2, 0]])
    for sentence, words in zip(sentences, (["dogs", "bark"], ["cats", "sleep"]), strict=True):
        display = plotting.ParseTreeDisplay.from_estimator(parser, sentence, truth=[2, 0])
        assert display.words == words and display.heads.tolist() == [2, 0] and not display.missed_
    assert plotting.ParseTreeDisplay.from_estimator(parser, sentences[0], words="a b".split()).words == ["a", "b"]


@pytest.mark.parametrize("heads, words, message", [
    ([2, 3], ["a", "b"], "heads must be numbers of words, 0..2"),
    ([-1], [], "heads must be numbers of words"),
    ([[0]], ["a"], "heads must be a vector"),
    ([0], ["a", "b"], "words must be 1 names, got 2"),
])
def test_parse_tree_refuses(heads, words, message):
    with pytest.raises(pb.ParameterError, match=message):
        plotting.ParseTreeDisplay(heads, words)


def test_parse_tree_refuses_other_types(svm):
    with pytest.raises(pb.InputTypeError, match="words must be a list of 1 names"):
        plotting.ParseTreeDisplay([0], "a")
    with pytest.raises(pb.InputTypeError, match="DependencyParser, got MulticlassSVM"):
        plotting.ParseTreeDisplay.from_estimator(svm, [("a", "b")])
    with pytest.raises(pb.ParameterError, match="truth must have 1 heads, as many as words, got 2"):
        plotting.ParseTreeDisplay([0], ["a"], truth=[2, 0])


def test_segments_stand_over_their_columns():
    found, truth = [("gap", 0), ("x", 1), ("y", 4)], [("gap", 0), ("x", 1), ("y", 5)]
    display = plotting.SegmentationDisplay.from_predictions(found, np.zeros((3, 7)), truth=truth, fillers=["gap"])
    spans = [(bar.get_x() + 0.4, bar.get_width() + 0.2) for bar in display.bars_]
    np.testing.assert_allclose(spans, [(1, 3), (4, 3), (1, 4), (5, 2)])
    assert [text.get_text() for text in display.texts_] == ["x", "y", "x", "y"]
    assert display.image_.get_array().shape == (3, 7)
    assert display.bars_[0].get_facecolor() == display.bars_[1].get_facecolor(), "both are wrong"


def test_segmentation_of_an_estimator_is_its_prediction():
    images = [np.array([[0.0, 1.0, 1.0]]), np.array([[1.0, 1.0, 0.0]])]
    svm = pb.SegmentationSVM(C=10.0, layout="image").fit(images, [[("gap", 0), ("bar", 1)], [("bar", 0), ("gap", 2)]])
    display = plotting.SegmentationDisplay.from_estimator(svm, images[0])
    assert display.found == [("gap", 0), ("bar", 1)] and display.image_.get_array().shape == (1, 3)


def test_regions_are_tinted_where_the_larger_label_is_predicted():
    images = pb.datasets.contrast_images(6, shape=(4, 5))
    svm = pb.BinaryLabelingSVM(C=1.0).fit(images.X, images.y)
    pixels = images.X[0].nodes[:, 0].reshape(4, 5)
    display = plotting.SegmentationDisplay.from_estimator(svm, images.X[0], image=pixels, truth=images.y[0])
    tinted = display.overlay_.get_array()[..., 3] > 0.0
    np.testing.assert_array_equal(tinted, svm.predict(images.X[:1])[0].reshape(4, 5) == 1)
    display = plotting.SegmentationDisplay.from_predictions(tinted.astype(int), pixels)         # without a truth
    np.testing.assert_array_equal(display.overlay_.get_array()[..., 3] > 0.0, tinted)
    with pytest.raises(pb.ParameterError, match="image must have 20 pixels"):
        plotting.SegmentationDisplay.from_estimator(svm, images.X[0], image=pixels[:2])
    with pytest.raises(pb.ParameterError, match="image must be given for a graph"):
        plotting.SegmentationDisplay.from_estimator(svm, images.X[0])


def test_regions_of_many_labels_have_their_colours():
    """A label has the same colour in all pictures, whichever labels occur in them."""
    found = np.array([[0, 1, 2], [0, 3, 3]])
    display = plotting.SegmentationDisplay.from_predictions(found, np.zeros((2, 3, 3)), truth=found - (found == 0))
    tint = display.overlay_.get_array()
    np.testing.assert_array_equal(tint[..., 3] > 0.0, found > 0)
    assert len(np.unique(tint[found > 0], axis=0)) == 3
    alone = plotting.SegmentationDisplay.from_predictions(found[:, 1:] % 3, np.zeros((2, 2))).overlay_.get_array()
    np.testing.assert_array_equal(alone[0, 1], tint[0, 2])
    names = np.array([["sea", "sky", "tree"], ["sea", "sea", "sea"]])
    display = plotting.SegmentationDisplay.from_predictions(names, np.zeros((2, 3)), truth=names)
    np.testing.assert_array_equal(display.overlay_.get_array()[..., 3] > 0.0, names != "sea")


def test_images_of_one_grey_are_not_black():
    for image, grey in ((np.full((2, 3), 0.5), 0.5), (np.ones((2, 3)), 1.0), (np.full((2, 3), 51, np.uint8), 0.2),
                        (np.zeros((2, 3)), 0.0), (np.full((2, 3), 7.0), 1.0)):
        display = plotting.SegmentationDisplay.from_predictions(np.zeros((2, 3), int), image)
        assert display.image_.norm(image)[0, 0] == pytest.approx(grey)


def test_segments_of_an_estimator_are_painted():
    image, segments = np.repeat([[0.0, 1.0]], 3, axis=0), np.array([[7, 2], [7, 2], [7, 7]])
    x = pb.Graph.from_image(image, segments)
    y = pb.models.WeightedLabels.from_mask(image.astype(int), segments)
    svm = pb.GraphSVM(C=10.0, symmetric=range(4)).fit([x], [y])
    display = plotting.SegmentationDisplay.from_estimator(svm, x, image=image, segments=segments, truth=y)
    np.testing.assert_array_equal(display.found, pb.models.paint(svm.predict([x])[0], segments))
    np.testing.assert_array_equal(display.truth, pb.models.paint(y.labels, segments))


@pytest.mark.parametrize("found, error, message", [
    ([("x", 1)], pb.ParameterError, "found must have first columns from 0 on"),
    ([("x", 0), ("y", 4)], pb.ParameterError, "below 4"),
    ([1, 2], pb.InputTypeError, "found must be a list of pairs"),
    (np.zeros((2, 2)), pb.ParameterError, "found must have a label for each pixel"),
])
def test_segmentation_refuses(found, error, message, svm):
    with pytest.raises(error, match=message):
        plotting.SegmentationDisplay(np.zeros((3, 4)), found)
    with pytest.raises(pb.InputTypeError, match="got MulticlassSVM"):
        plotting.SegmentationDisplay.from_estimator(svm, np.zeros((3, 4)))
