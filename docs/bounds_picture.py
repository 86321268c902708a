"""Draws the first page's picture, two bounds that close in on a minimum: `python docs/bounds_picture.py`."""

from pathlib import Path

import pybundle as pb

WIDTH, HEIGHT, LEFT, BASE = 440, 320, 10, 290
LARGEST = 700.0         # objective at the upper edge
UPPER, LOWER, GREY = "#d9822b", "#12958a", "#7d8790"        # legible on white and on black


def picture(result: pb.Result) -> str:
    """Return the SVG: best objective and lower bound over passes, from the pass on at which both fit in."""
    history = result.history
    shown = history["best_primal"] <= LARGEST
    passes = history["n_passes"][shown]

    def points(values):
        x = LEFT + (WIDTH - LEFT - 20) * (passes - passes[0]) / (passes[-1] - passes[0])
        return [f"{a:.1f},{b:.1f}" for a, b in zip(x, BASE * (1.0 - values[shown] / LARGEST), strict=True)]

    above, below = points(history["best_primal"]), points(history["lower_bound"])
    end_x, end_y = map(float, below[-1].split(","))
    lines = "".join(f'<polyline points="{" ".join(line)}" fill="none" stroke="{colour}" stroke-width="3"/>\n'
                    for line, colour in ((above, UPPER), (below, LOWER)))
    texts = [(LEFT + 80, 60, UPPER, "start", "objective of the best weights so far"),
             (LEFT + 105, BASE - 14, LOWER, "start", "proven bound: no weights are below it"),
             (end_x, end_y - 14, GREY, "end", f"a gap of {100 * result.gap:.1f} %"),
             (WIDTH - 20, HEIGHT - 10, GREY, "end", "passes over the data")]
    words = "".join(f'<text x="{x:.0f}" y="{y:.0f}" fill="{colour}" text-anchor="{anchor}">{text}</text>\n'
                    for x, y, colour, anchor, text in texts)
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}" '
            'role="img" font-family="system-ui, sans-serif" font-size="15" stroke-linejoin="round">\n'
            "<title>The best objective falls and the lower bound rises until they meet</title>\n"
            f'<polygon points="{" ".join(above + below[::-1])}" fill="{LOWER}" opacity="0.15"/>\n'
            f'<path d="M{LEFT},8 V{BASE} H{WIDTH - 20}" fill="none" stroke="{GREY}"/>\n'
            f'{lines}<circle cx="{end_x}" cy="{end_y}" r="5" fill="{LOWER}"/>\n{words}</svg>\n')


if __name__ == "__main__":
    X, y, _, _ = pb.datasets.load_digits()
    run = pb.minimize(pb.risks.MulticlassHinge(X, y), lam=10.0, method="oca", tol=1e-3)
    (Path(__file__).parent / "static" / "bounds.svg").write_text(picture(run), encoding="utf-8")
