"""Licence plates (UC3M-LP) cut into characters: the stand-in for the plates of the Prox-BMRM report.

    PYBUNDLE_DATA=/path/to/data python asv_benchmarks/reproduce/plates.py [--lam 3]

2033 training and 483 test plates, 24 pixels high; a seeded third of the training plates is the validation set. A label
is a character of 7 or 10 columns, or a filler of one column. The annotated characters keep their place as nearly as
neighbours allow; all else is filler, not counted by the loss, because two or more characters of a plate are masked.
Loss: annotated columns with the wrong character. Features of a column: every second pixel, normalised by its
neighbourhood, the size of the horizontal gradient there, and a constant.

As a script it trains at one lam, prints what it reads, and draws plates into figures/, which is not committed.
"""

import argparse
from typing import NamedTuple

from common import FIGURES, data_file, solve  # sets threads: before NumPy

# isort: split
import numpy as np
from scipy.ndimage import uniform_filter

import pybundle as pb

WIDTHS = (7, 10)
FILLER = 36
CHARACTERS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
REACH = 15          # pixels of the neighbourhood that normalises grey values


class Plates(NamedTuple):
    images: list        # (W, 24) each
    X: list             # (W, height) each
    y: list             # labels from left to right
    moved: int          # characters that do not stand exactly where they are annotated
    lost: int           # characters too narrow for any label
    test: np.ndarray    # whether a plate is of the test part


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lam", type=float, default=3.0)
    lam = parser.parse_args().lam
    plates, model, sets = load()
    w = solve(pb.risks.Structured(model, *examples(plates, sets["training"])), lam, "auto", None, time_limit=600.0).x
    predicted = [model.decode(w, plates.X[i]) for i in sets["test"]]
    found = characters_found(model, plates, sets["test"], predicted)
    print(f"{plates.moved} characters stand a column or more from their interval, {plates.lost} became filler; lam "
          f"{lam:g}: {100 * found.mean():.1f} % of the characters of test plates are read at their middle column")
    draw(model, plates, sets["test"], predicted, FIGURES / "plates.png")
    draw_templates(model, w, FIGURES / "plates_templates.png")


def load():
    """Plates, model, and the rows of the training, validation and test sets."""
    with np.load(data_file("license_plates", "license_plates.npz"), allow_pickle=False) as file:
        data = dict(file)
    widths, symbols = alphabet(data)
    plates = read(data, widths, symbols)
    model = pb.models.Segmentation(plates.X[0].shape[1], widths, symbols=symbols, fillers=[0], loss="symbol")
    order = np.random.default_rng(0).permutation(np.flatnonzero(~plates.test))
    return plates, model, {"validation": order[:len(order) // 3], "training": order[len(order) // 3:],
                           "test": np.flatnonzero(plates.test)}


def problem():
    """The risk of the training plates, and the shares of annotated columns with the wrong character in the others."""
    plates, model, sets = load()
    risks = {name: pb.risks.Structured(model, *examples(plates, rows)) for name, rows in sets.items()}

    def error(name):
        columns = sum(model.widths[plates.y[i]][plates.y[i] > 0].sum() for i in sets[name])
        return lambda w: float(risks[name].predict_losses(w).sum() / columns)

    return risks["training"], {name: error(name) for name in ("validation", "test")}


def alphabet(data):
    """Widths and symbols of the labels: the filler, then the characters of the training part in each width."""
    trained = np.repeat(data["split"] == 0, np.diff(data["char_offsets"]))
    seen = np.unique(data["char_label"][trained])
    return [1, *np.repeat(WIDTHS, len(seen))], [FILLER, *np.tile(seen, len(WIDTHS))]


def read(data, widths, symbols):
    labels = {(symbol, width): a for a, (symbol, width) in enumerate(zip(symbols, widths, strict=True))}
    images, X, Y, moved, lost = [], [], [], 0, 0
    for (a, b), (c, e) in zip(ranges(data["column_offsets"]), ranges(data["char_offsets"]), strict=True):
        images.append(data["columns"][a:b])
        X.append(features(images[-1].astype(np.float64)))
        y, shifts, gone = cover(b - a, data["char_x0"][c:e], data["char_x1"][c:e], data["char_label"][c:e], labels)
        Y.append(y)
        moved += shifts
        lost += gone
    return Plates(images, X, Y, moved, lost, data["split"] == 1)


def ranges(offsets):
    return zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)


def features(image):
    """Column by column: normalised grey values and horizontal gradients, two pixels averaged, and a constant."""
    mean = uniform_filter(image, REACH, mode="nearest")
    variance = uniform_filter(image * image, REACH, mode="nearest") - mean * mean
    # flat blocks are left flat
    grey = (image - mean) / np.sqrt(np.maximum(variance, 0.0) + (0.1 * image.std()) ** 2 + 1.0)
    rows = [part.reshape(len(image), -1, 2).mean(axis=2) for part in (grey, np.abs(np.gradient(grey, axis=0)))]
    return np.column_stack([*rows, np.ones(len(image))]).astype(np.float32)


def cover(n_columns, left, right, characters, labels):
    """Truth labels of a plate, characters that moved from their annotation, characters without room.

    Overlapping neighbours are parted in the middle; each character takes the width and place nearest to its interval
    between the character before and the interval behind.
    """
    left, right = left.astype(float), right.astype(float)
    for j in np.flatnonzero(left[1:] < right[:-1]):
        left[j + 1] = right[j] = (left[j + 1] + right[j]) / 2.0
    left, right = (np.clip(np.rint(x), 0, n_columns).astype(int) for x in (left, right))
    y, end, moved, lost = [], 0, 0, 0
    for j, character in enumerate(characters.tolist()):
        limit = left[j + 1] if j + 1 < len(left) else n_columns
        places = [(abs(k - left[j]) + abs(k + width - right[j]), k, width) for width in WIDTHS
                  for k in range(max(end, left[j] - width), min(limit - width, right[j]) + 1)
                  if (character, width) in labels]
        if not places:
            lost += 1
            continue
        distance, k, width = min(places)
        moved += distance > 0
        y += [0] * (k - end) + [labels[character, width]]
        end = k + width
    return np.array(y + [0] * (n_columns - end)), moved, lost


def examples(plates, rows):
    return [plates.X[i] for i in rows], [plates.y[i] for i in rows]


def characters_found(model, plates, rows, predicted):
    """For every annotated character whether its middle column has its symbol."""
    right = []
    for i, y_hat in zip(rows, predicted, strict=True):
        y = plates.y[i]
        middles = (model.starts(y) + model.widths[y] // 2)[y > 0]
        right.append(np.repeat(model.symbols[y_hat], model.widths[y_hat])[middles] == model.symbols[y[y > 0]])
    return np.concatenate(right)


def draw(model, plates, rows, predicted, path, n=24):
    """Predicted cuts and characters on the first test plates, the annotation below."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(14.0, 1.5 * n / 3), layout="constrained")
    for axes, i, y_hat in zip(figure.subplots(n // 3, 3).ravel(), rows, predicted, strict=False):
        axes.imshow(plates.images[i].T, cmap="gray", aspect="auto")
        axes.set_axis_off()
        for y, height, colour in ((y_hat, -1.0, "tab:red"), (plates.y[i], 28.0, "tab:green")):
            for label, start in zip(y.tolist(), model.starts(y).tolist(), strict=True):
                if label:
                    width = int(model.widths[label])
                    axes.text(start + width / 2 - 0.5, height, CHARACTERS[model.symbols[label]], ha="center",
                              color=colour, fontsize=9)
                    if y is y_hat:
                        for edge in (start, start + width):
                            axes.axvline(edge - 0.5, color=colour, linewidth=0.8)
    path.parent.mkdir(exist_ok=True)
    figure.savefig(path, dpi=90)


def draw_templates(model, w, path):
    """Grey value weights of the widest template of each character."""
    from matplotlib.figure import Figure

    widest = np.flatnonzero(model.widths == model.widths.max())
    figure = Figure(figsize=(10.0, 4.5), layout="constrained")
    for axes in (grid := figure.subplots(3, -(-len(widest) // 3)).ravel()):
        axes.set_axis_off()
    for axes, label in zip(grid, widest, strict=False):
        axes.imshow(model.template(w, label)[:12], cmap="gray")
        axes.set_title(CHARACTERS[model.symbols[label]], fontsize=8)
    figure.savefig(path, dpi=90)


if __name__ == "__main__":
    main()
