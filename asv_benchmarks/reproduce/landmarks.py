"""Eight facial landmarks in 40 x 40 images of LFW, tied along a tree: the stand-in for the landmarks of two papers.

    PYBUNDLE_DATA=/path/to/data python asv_benchmarks/reproduce/landmarks.py [--lam 100]

2287 training, 762 validation and 763 test faces. Features: local binary patterns of three scales in windows around a
position, 105 cells of 256 codes for each landmark, and four terms of deformation for each edge. Search boxes are the
smallest around the training landmarks. Loss and error: mean deviation in per cent of the distance between eyes and
mouth; errors are taken against the annotation, which is real-valued, while predictions are whole pixels.

As a script it trains at one lam, prints the errors and draws test faces into figures/, which is not committed.
"""

import argparse

from common import FIGURES, data_file, solve  # sets threads: before NumPy

# isort: split
import numpy as np

import pybundle as pb

PARENTS = [-1, 0, 0, 0, 0, 1, 2, 0]
YARDSTICK = ([1, 2, 5, 6], [3, 4])          # corners of the eyes, corners of the mouth
WINDOWS = [[8, 8], [5, 5], [4, 4]]
MARGIN = 14
PARTS = ("training", "validation", "test")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lam", type=float, default=100.0)
    lam = parser.parse_args().lam
    images, truth, rows = read()
    model, maps, risk = train(images, truth, rows["training"])
    w = solve(risk, lam, "auto", None).x
    predicted = model.decode_batch(w, maps[rows["test"]])
    test = deviations(predicted, truth[rows["test"]])
    still = deviations(np.tile(truth[rows["training"]].mean(axis=0), (len(rows["test"]), 1, 1)), truth[rows["test"]])
    print(f"lam {lam:g}: test error {100 * test.mean():.2f} %, below 10 % {100 * (test < 0.1).mean():.1f} %; mean "
          f"positions of training faces {100 * still.mean():.2f} %; annotation rounded to whole pixels "
          f"{100 * deviations(np.round(truth), truth).mean():.2f} %")
    draw(images[rows["test"]], predicted, truth[rows["test"]], FIGURES / "landmarks.png")


def read():
    """Images, landmarks, and the rows of every part."""
    with np.load(data_file("lfw_landmarks", "lfw_landmarks.npz"), allow_pickle=False) as file:
        images, truth, split = file["X"], file["landmarks"].astype(np.float64), file["split"]
    return images, truth, {name: np.flatnonzero(split == k) for k, name in enumerate(PARTS)}


def train(images, truth, rows):
    """Model, code maps of all images, and the risk of some of them."""
    maps = pb.features.lbp_maps(images, len(WINDOWS), MARGIN)
    model = pb.models.Landmarks.from_examples(
        images.shape[1:], PARENTS, truth[rows], pb.features.CodeWindows(WINDOWS, MARGIN), margin=0,
        yardstick=YARDSTICK, unit=100.0)
    return model, maps, pb.risks.Structured(model, maps[rows], truth[rows])


def problem():
    """The risk of the training faces, and the errors of a point on the others."""
    images, truth, rows = read()
    model, maps, risk = train(images, truth, rows["training"])

    def error(name):
        return lambda w: deviations(model.decode_batch(w, maps[rows[name]]), truth[rows[name]]).mean()

    return risk, {name: error(name) for name in PARTS[1:]}


def deviations(positions, truth):
    """Mean distance to the annotation of every face as a fraction of its distance between eyes and mouth."""
    eyes, mouth = (truth[:, group].mean(axis=1) for group in YARDSTICK)
    return np.linalg.norm(positions - truth, axis=2).mean(axis=1) / np.linalg.norm(eyes - mouth, axis=1)


def draw(images, predicted, truth, path):
    """Predictions (filled) and annotation (circles): 24 faces from the best to the worst."""
    from matplotlib.figure import Figure

    order = np.argsort(deviations(predicted, truth))
    figure = Figure(figsize=(12.0, 6.4), layout="constrained")
    chosen = order[np.linspace(0, len(order) - 1, 24).astype(int)]
    for axes, i in zip(figure.subplots(4, 6).ravel(), chosen, strict=True):
        axes.imshow(images[i], cmap="gray")
        axes.scatter(*truth[i].T, s=24, facecolors="none", edgecolors="tab:green", linewidths=1.2)
        axes.scatter(*predicted[i].T, s=7, color="tab:red")
        for j, p in enumerate(PARENTS):
            if p >= 0:
                axes.plot(*predicted[i, [j, p]].T, color="tab:red", linewidth=0.6)
        axes.set_axis_off()
    path.parent.mkdir(exist_ok=True)
    figure.savefig(path, dpi=90)


if __name__ == "__main__":
    main()
