"""Ready sets of templates for words and their columns; `+` joins sets."""

from __future__ import annotations

from ..core.exceptions import ParameterError
from ..core.validation import check_integer
from .templates import MOST_COLUMNS, REACH, Templates


def words(n_columns: int = 1) -> Templates:
    """Templates for tagging, chunking and entities, which the command line uses for CoNLL columns by default.

    They are `window`, `lower`, `affixes`, `shapes` and `digits` with their defaults, and `columns` if there are any.

    Parameters
    ----------
    n_columns : int
        Number of columns of a token, the word first; the label is not counted.

    Returns
    -------
    Templates

    Raises
    ------
    ParameterError
        If `n_columns` is no integer from 1 to 1000.

    Examples
    --------
    >>> import pybundle as pb
    >>> X = [[("The", "DT"), ("dog", "NN"), ("barks", "VBZ")],
    ...      [("Dogs", "NNS"), ("bark", "VBP")]]
    >>> y = [["B-NP", "I-NP", "B-VP"], ["B-NP", "B-VP"]]
    >>> crf = pb.ChainCRF(templates=pb.templates.words(2)).fit(X, y)
    >>> crf.predict_single([("Cats", "NNS"), ("sleep", "VBP")])
    ['B-NP', 'B-VP']
    """
    further = check_integer("n_columns", n_columns, low=1) > 1
    found = window() + lower() + affixes() + shapes() + digits()
    return found + columns(n_columns) if further else found


def window(size: int = 1) -> Templates:
    """Templates of the words up to `size` tokens away as they are, and of the pairs of the word and a neighbour.

    Examples
    --------
    >>> import pybundle as pb
    >>> pb.templates.window(0).lines
    ('word[0]:%x[0,0]',)
    """
    size = _size("size", size)
    pairs = ["words[-1]:%x[-1,0]/%x[0,0]", "words[0]:%x[0,0]/%x[1,0]"] if size else []
    return Templates(_around("word", "x", size) + pairs)


def lower(size: int = 2) -> Templates:
    """Templates of the words up to `size` tokens away in small letters.

    Examples
    --------
    >>> import pybundle as pb
    >>> pb.templates.lower(1)(["The", "dog"])[1]
    ['lower[-1]:the', 'lower[0]:dog', 'lower[1]:_B+1']
    """
    return Templates(_around("lower", "lower", _size("size", size)))


def affixes(longest: int = 4) -> Templates:
    """Templates of the first and of the last 1 to `longest` letters of the word, at most 9.

    Examples
    --------
    >>> import pybundle as pb
    >>> pb.templates.affixes(2)(["dogs"])
    [['prefix1:d', 'suffix1:s', 'prefix2:do', 'suffix2:gs']]
    """
    longest = check_integer("longest", longest, low=1)
    if longest > 9:
        raise ParameterError(f"longest must be 1 to 9 letters, got {longest}")
    return Templates([f"{kind}{k}:%{kind}{k}[0,0]" for k in range(1, longest + 1) for kind in ("prefix", "suffix")])


def shapes(size: int = 1) -> Templates:
    """Templates of the shape of the word, and of shapes without repetitions up to `size` tokens away, also in a row.

    Examples
    --------
    >>> import pybundle as pb
    >>> pb.templates.shapes(0)(["NATO-1949"])
    [['shape:XXXX-0000', 'runs[0]:X-0']]
    """
    size = _size("size", size)
    rows = ["runs:%runs[-1,0]/%runs[0,0]/%runs[1,0]"] if size else []
    return Templates(["shape:%shape[0,0]", *_around("runs", "runs", size), *rows])


def digits() -> Templates:
    """One template, of words with digits, in which each digit is a 0.

    Examples
    --------
    >>> import pybundle as pb
    >>> pb.templates.digits()(["in", "1949"])
    [[], ['digits:0000']]
    """
    return Templates(["digits:%digits[0,0]"])


def columns(n_columns: int = 2, size: int = 2) -> Templates:
    """Templates of the columns after the word, such as tags, up to `size` tokens away, and of neighbours in a row.

    Examples
    --------
    >>> import pybundle as pb
    >>> pb.templates.columns(2, size=0)([("dog", "NN")])
    [['column1[0]:NN']]
    """
    if check_integer("n_columns", n_columns, high=MOST_COLUMNS) < 2:
        raise ParameterError(f"n_columns must be at least 2, the word and a column, got {n_columns}")
    size, lines = _size("size", size), []
    for k in range(1, n_columns):
        lines += _around(f"column{k}", "x", size, k)
        lines += [f"column{k}[{row}..{row + more}]:" + "/".join(f"%x[{row + j},{k}]" for j in range(more + 1))
                  for more in (1, 2) for row in range(-size, size + 1 - more)]
    return Templates(lines)


def _around(name, function, size, column=0):
    return [f"{name}[{row}]:%{function}[{row},{column}]" for row in range(-size, size + 1)]


def _size(name, value):
    """Return a number of tokens after a check that it is 0..REACH."""
    value = check_integer(name, value, low=0)
    if value > REACH:
        raise ParameterError(f"{name} must be 0 to {REACH} tokens, got {value}")
    return value
