"""The parser of the command line: commands, options and their types."""

import argparse
import math
import sys
from importlib import import_module
from pathlib import Path

from ..core.version import __version__
from ..metrics.chunks import SCHEMES
from .data import FORMATS
from .models import KINDS


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line, without the usage text."""

    def error(self, message):
        self.exit(2, f"{self.prog}: error: {' '.join(message.split())}\n")


def make_parser():
    """Return the parser of all commands; `command` of the parsed arguments is the function to call."""
    parser = Parser(prog="pybundle", description="Certified solvers for regularised linear models.",
                    epilog="Exit codes: 0 done, 1 the gap was not reached, 2 error, 130 Ctrl-C.")
    parser.add_argument("--version", action="version", version=f"pybundle {__version__}")
    parser.set_defaults(command=lambda arguments: parser.print_help() or 0)
    commands = parser.add_subparsers(title="commands", metavar="command")

    def command(name, text, *groups):
        def run(arguments):         # imports the module of this command only
            return getattr(import_module(f".{name}", __package__), name)(arguments)

        made = commands.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.")
        for group in groups:
            group(made.add_argument_group(TITLES[group.__name__]))
        made.add_argument("--json", action="store_true", help="print one JSON document")
        # predict replaces the heads, so it need not check them
        made.set_defaults(command=run, left_out=(), checks_trees=name != "predict")
        return made

    made = command("train", "train a model to a certified gap", _data, _model, _solver, _search, _run, _files)

    made = command("predict", "label examples with a saved model", _data)
    made.add_argument("--load", required=True, metavar="FILE", help="a model that train saved")
    made.add_argument("--unlabelled", action="store_true", help="the data have no labels (CoNLL-U: heads are ignored)")
    made.add_argument("--output", type=Path, metavar="FILE", help="output file (default: standard output)")

    made = command("evaluate", "compare a model's or a file's labels with the true ones", _data)
    given = made.add_mutually_exclusive_group(required=True)
    given.add_argument("--load", metavar="FILE", help="a model that train saved")
    given.add_argument("--predictions", metavar="FILE", help="what predict wrote, or another program in its format")
    made.add_argument("--no-punctuation", action="store_true",
                      help="conllu: words with the universal tag PUNCT do not count")
    made.add_argument("--strict", choices=sorted(SCHEMES), help="count only chunks that are well formed in this scheme")

    made = command("path", "solve a grid of regularisation constants, each warmed by the one before",
                   _data, _model, _run)
    made.add_argument("--lams", type=_numbers, required=True, metavar="LAM,LAM,...", help="regularisation, sum scale")
    made.add_argument("--reuse", choices=("planes", "solution"), default="planes", help="what the next run gets")
    made.add_argument("--save", metavar="FILE", help="model files to write; {lam} in the name stands for each constant")
    _tolerance(made)

    made = command("bench", "time methods side by side on one problem (default: scikit-learn's digits)",
                   _optional_data, _model, _run)
    made.add_argument("--methods", type=lambda text: text.split(","), metavar="A,B,...",
                      help="methods of pybundle.minimize, also with options (default: prox-bcfw,oca,bmrm; rank: "
                           "oca,bmrm)")
    made.add_argument("--repeat", type=_count, default=3, help="runs of each, the median counts (default: 3)")
    _constant(made)
    _tolerance(made)

    made = command("demo", "train a multiclass SVM on scikit-learn's digits and certify it")
    made.description = ("Trains a multiclass SVM on 1437 handwritten digits to a certified gap, tests it on 360 "
                        "others, saves pybundle_demo.npz and pybundle_demo.png.")
    made.add_argument("--output", type=Path, default=Path("."), metavar="DIR", help="output folder (default: here)")
    made.add_argument("--method", default="auto",
                      help="method of pybundle.minimize, also with options: 'bmrm theta=0.02' (default: auto)")
    made.add_argument("--lam", type=_number, default=1.0, help="regularisation constant, sum scale (default: 1)")
    made.add_argument("--tol", type=_number, default=1e-3, help="relative gap to reach (default: 1e-3)")

    made = command("verify", "check the certificate of a run against the data", _data, _model)
    made.add_argument("--certificate", required=True, metavar="FILE", help="what train --certificate wrote")
    made.add_argument("--exact", action="store_true", help="rational arithmetic (svm of moderate size)")
    _constant(made, "that of the certificate, which is printed", may_be_inf=True)

    made = command("info", "look at a saved model; without one, versions, BLAS and kernels for bug reports")
    made.add_argument("model", metavar="MODEL", nargs="?", help="a model that train or estimator.save wrote")
    made.add_argument("--top", type=_count, default=5, metavar="N", help="features of each label (default: 5)")
    return parser


def _data(parser, optional=False):
    parser.add_argument("data", metavar="DATA", help="file of examples, plain, gz, bz2 or xz; - is standard input",
                        nargs="?" if optional else None)
    parser.add_argument("--format", choices=sorted(FORMATS),
                        help="default: by the end of the name, else by the first lines, "
                             "else conll for sequences")
    parser.add_argument("--label", metavar="COLUMN",
                        help="csv: name or number of the column of labels, first or last (default: last, or as in the "
                             "training)")
    parser.add_argument("--keep-na", action="store_true",
                        help="csv: labels like NA, nan or empty ones are classes (default: they are refused)")
    parser.add_argument("--comment", metavar="TEXT", help="conll: lines that begin with it are comments, too")
    parser.add_argument("--separator", choices=("tab", "blank"),
                        help="conll: what separates columns (default: tabs if a token has one, else blanks)")
    parser.add_argument("--multiple-roots", action="store_true",
                        help="conllu: several words of a sentence may hang on the root (default: as in the training)")
    parser.add_argument("--skip-bad", action="store_true",
                        help="conllu: leave sentences out whose heads are no tree, and count them")
    parser.add_argument("--groups", metavar="FILE",
                        help="rank: sizes of the groups in the order of the rows, one a line (svmlight: default qid)")
    parser.add_argument("--zero-based", action="store_true", help="svmlight: indices start at 0")
    parser.add_argument("--features", type=_features, metavar="N|SETS|FILE",
                        help="svmlight: number of features (default: as seen); conll: sets of templates, like "
                             "words,columns, or a file of CRF++'s templates (default: words)")
    parser.add_argument("--attributes", action="store_true",
                        help="conll: a label and CRFsuite's attributes a line, which are the features")
    parser.add_argument("--arrays", type=lambda text: text.split(","), metavar="X,Y[,OFFSETS]",
                        help="npz: names of the arrays (default: X,y,offsets, or as in the training)")


def _optional_data(parser):
    _data(parser, optional=True)


def _model(parser):
    parser.add_argument("--model", choices=sorted(KINDS),
                        help="default: parser for CoNLL-U, chain for sequences, svm otherwise")
    parser.add_argument("--no-intercept", action="store_true", help="svm: no constant feature")
    parser.add_argument("--scale", action="store_true",
                        help="svm: divide columns by their standard deviations, dense ones less their means")
    parser.add_argument("--hash-bits", type=_count, metavar="B",
                        help="chain, crf, parser: hash to 2^B columns (default: parser 22, 20 for heads alone, others "
                             "none)")
    parser.add_argument("--min-count", type=_count, metavar="N",
                        help="chain, crf: tokens that a feature must occur in (default: 1); parser: words that a value "
                             "must occur in (default: 2)")
    parser.add_argument("--token-weights", choices=("auto", "all", "occurring"),
                        help="chain, crf: pairs of feature and label that have weights (default: auto)")
    parser.add_argument("--no-relations", action="store_true",
                        help="parser: heads alone (default: heads and relations if the file has these)")
    parser.add_argument("--no-punctuation", action="store_true",
                        help="parser: words with the universal tag PUNCT do not count in the loss")
    parser.add_argument("--scheme", choices=("BIO", "IOB1", "BILOU", "IOBES"),
                        help="chain, crf: how labels write chunks; labels that break it are refused, never predicted")
    parser.add_argument("--repair", action="store_true", help="rewrite the chunks of the training data in --scheme")


def _solver(parser):
    _constant(parser, "1; parser: 0.03; inf is no penalty: svm, or with --l1", may_be_inf=True)
    parser.add_argument("--l1", type=_limit, default=0.0, metavar="RATE",
                        help="chain, crf: rate of the l1 norm, above 0 many weights are 0 (default: 0)")
    parser.add_argument("--method", default="auto",
                        help="method of pybundle.minimize, also with options: 'bmrm theta=0.02' (default: auto)")
    _tolerance(parser, 1e-3)
    parser.add_argument("--seed", type=int, metavar="N", help="order of the examples (default: 0)")


def _search(parser):
    parser.add_argument("--cv", type=_count, metavar="FOLDS",
                        help="choose C by cross-validation (all but mkl); with --scheme by F1 of chunks")
    parser.add_argument("--grid", type=_numbers, metavar="C,C,...",
                        help="values of C for --cv (default: 8, 1e-4 to 100)")


def _files(parser):
    parser.add_argument("--save", type=Path, metavar="FILE", help="model file to write (pybundle.load reads it)")
    parser.add_argument("--certificate", type=Path, metavar="FILE",
                        help="certificate file for pybundle verify; costs further passes (not with mkl, --cv)")
    parser.add_argument("--checkpoint", type=Path, metavar="FILE",
                        help="checkpoint file; the same command resumes from it")
    parser.add_argument("--checkpoint-every", type=_number, metavar="SECONDS",
                        help="between two writes of it (default: 60, more if a write takes above 3)")


TITLES = {"_data": "data", "_optional_data": "data", "_model": "model", "_solver": "objective and solver",
          "_search": "search for C", "_run": "run", "_files": "files to write"}
"""Titles of groups of options, by the function that adds the group."""


def _constant(parser, default="1; parser: 0.03", may_be_inf=False):
    constant = parser.add_mutually_exclusive_group()
    constant.add_argument("-C", type=_number_or_inf if may_be_inf else _number,
                          help=f"weight of the losses, 1/lam (default: {default})")
    constant.add_argument("--lam", type=_number, help="regularisation constant, sum scale")


def _tolerance(parser, default=1e-2):
    parser.add_argument("--tol", type=_limit, default=default, help=f"relative gap to reach (default: {default:g})")
    parser.add_argument("--atol", type=_limit, metavar="DIFFERENCE",
                        help="objective minus lower bound that is enough, too; with --tol 0 it alone")


def _run(parser):
    parser.add_argument("--parts", type=_count, metavar="P", help="parts of the risk (default: the method's choice)")
    parser.add_argument("--jobs", type=int, metavar="N", help="threads; -1: one per processor (default: 1)")
    parser.add_argument("--time-limit", type=_number, metavar="SECONDS")
    parser.add_argument("--max-iter", type=_count, metavar="N", help="most iterations (default: 10000)")
    parser.add_argument("--quiet", action="store_true", help="no progress bar (there is none but on a terminal)")


def _number(text):
    value = float(text)
    if not math.isfinite(value) or value <= 0.0:
        raise argparse.ArgumentTypeError(f"must be a finite number > 0, got {text!r}")
    return value


def _number_or_inf(text):
    return math.inf if text.lower() == "inf" else _number(text)


def _limit(text):
    value = float(text)
    if not 0.0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"must be a finite number >= 0, got {text!r}")
    return value


def _numbers(text):
    return [_number(item) for item in text.split(",")]


def _count(text):
    value = int(text)
    if not 1 <= value <= sys.maxsize:
        raise argparse.ArgumentTypeError(f"must be an integer >= 1, got {text!r:.40}")
    return value


def _features(text):
    return _count(text) if text.lstrip("+-").isdecimal() else text


for _function, _name in ((_number, "float"), (_number_or_inf, "float"), (_limit, "float"), (_numbers, "list of floats"),
                          (_count, "int")):
    _function.__name__ = _name          # argparse shows this name: "invalid float value"
