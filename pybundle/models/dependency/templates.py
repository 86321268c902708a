"""Templates of arc features: from text to the hash keys of words, distances and the words between."""

from __future__ import annotations

import re
from typing import NamedTuple
from zlib import crc32

import numpy as np

from ...core.exceptions import InputTypeError, ParameterError

EDGES = (1, 2, 3, 4, 5, 6, 8, 11, 16, 26)
"""A distance falls into the last bucket whose edge it reaches; left and right apart, the root by itself."""
MOST_KINDS = 64
OUTSIDE, ROOT = -2, -1
"""Attributes of positions outside the sentence, and of the root."""

PAIRS = (
    "h.word distance", "m.word distance", "h.pos distance", "m.pos distance",
    "h.word m.word", "h.word m.pos distance", "h.pos m.word distance", "h.pos m.pos distance",
)
CONTEXT = (
    "h.pos h+1.pos m-1.pos m.pos distance", "h-1.pos h.pos m-1.pos m.pos distance",
    "h.pos h+1.pos m.pos m+1.pos distance", "h-1.pos h.pos m.pos m+1.pos distance",
    "h.pos h+1.pos m.pos distance", "h-1.pos h.pos m.pos distance",
    "h.pos m-1.pos m.pos distance", "h.pos m.pos m+1.pos distance",
)
BETWEEN = ("h.pos m.pos each.pos",)
DEFAULT_TEMPLATES = PAIRS + CONTEXT + BETWEEN
"""A selection from McDonald, Crammer, Pereira 2005 (Online large-margin training of dependency parsers), Table 1."""

TREEBANK_TEMPLATES = (
    "h.lower distance", "m.lower distance", "h.xpos distance", "m.xpos distance", "h.xpos m.xpos distance",
    "h.pos m.pos distance", "h.lower m.lower", "h.lower m.xpos", "h.xpos m.lower", "h.lower m.pos distance",
    "h.pos m.lower distance", "h.pos h+1.pos m-1.pos m.pos direction", "h-1.pos h.pos m-1.pos m.pos direction",
    "h.pos h+1.pos m.pos m+1.pos direction", "h-1.pos h.pos m.pos m+1.pos direction",
    "h.pos h+1.pos h+2.pos m.pos direction", "h-2.pos h-1.pos h.pos m.pos direction",
    "h.pos m-2.pos m-1.pos m.pos direction", "h.pos m.pos m+1.pos m+2.pos direction",
    "h.xpos h+1.xpos m.xpos direction", "h-1.xpos h.xpos m.xpos direction", "h.xpos m-1.xpos m.xpos direction",
    "h.xpos m.xpos m+1.xpos direction", "h.pos m.pos m+1.lower direction", "h.pos m.pos m-1.lower direction",
    "h.pos h+1.lower m.pos direction", "h.pos h-1.lower m.pos direction", "h.pos m.pos set.pos",
    "h.xpos m.xpos each.pos",
)
"""For sentences of a treebank: the fine tag stands for head and word, the universal one for neighbours and in wide
templates. On the English Web Treebank some 3 points of heads more than the default, which makes do with one tag."""

_ATOM = re.compile(r"([hm])([+-]\d+)?\.(\w+)")


class Template(NamedTuple):
    """Columns are numbers of attributes, shifts positions relative to head or word; -1 stands for no column."""

    head: tuple[tuple[int, int], ...]
    word: tuple[tuple[int, int], ...]
    measure: str
    set_column: int
    each_column: int
    seed: int


def parse_templates(templates, attributes):
    """Templates from text; those with `each` last."""
    if isinstance(templates, str):
        raise InputTypeError("templates must be a sequence of strings, got one string")
    parsed = [_parse(f"templates[{t}]", text, attributes) for t, text in enumerate(templates)]
    if not 1 <= len(parsed) <= 128:
        raise ParameterError(f"templates must hold 1 to 128 templates, got {len(parsed)}")
    return sorted(parsed, key=lambda template: template.each_column >= 0)


def _parse(name, text, attributes):
    if not isinstance(text, str):
        raise InputTypeError(f"{name} must be a string, got {type(text).__name__}")
    nodes, measure, columns = {"h": [], "m": []}, "", {"set": -1, "each": -1}

    def column(attribute):
        if attribute not in attributes:
            raise ParameterError(f"{name} = {text!r} uses the attribute {attribute!r}; attributes are "
                                 + ", ".join(map(repr, attributes)))
        return attributes.index(attribute)

    for atom in text.split():
        kind, _, attribute = atom.partition(".")
        match = _ATOM.fullmatch(atom)
        if match:
            nodes[match[1]].append((column(match[3]), int(match[2] or 0)))
        elif kind in columns and attribute:
            columns[kind] = column(attribute)
        elif atom in ("distance", "direction"):
            measure = atom
        else:
            raise ParameterError(f"{name} = {text!r} must be made of h.ATTRIBUTE, h+1.ATTRIBUTE, m-1.ATTRIBUTE, "
                                 f"distance, direction, set.ATTRIBUTE and each.ATTRIBUTE, got {atom!r}")
    if not nodes["h"] and not nodes["m"]:
        raise ParameterError(f"{name} = {text!r} must ask for something of head or word")
    if min(columns.values()) >= 0:
        raise ParameterError(f"{name} = {text!r} must ask for 'set' or 'each', not both")
    return Template(tuple(nodes["h"]), tuple(nodes["m"]), measure, columns["set"], columns["each"],
                    crc32(" ".join(text.split()).encode()))


class Keys(NamedTuple):
    """What `HashedArcs` is made of."""

    head_keys: np.ndarray
    word_keys: np.ndarray
    distance_keys: np.ndarray
    root_keys: np.ndarray
    set_column: np.ndarray
    each_column: np.ndarray
    kinds: np.ndarray
    kind_keys: np.ndarray


def make_keys(templates, values, starts, bits, blocks=False):
    """Keys of all words under all templates; with `blocks` template t has the features t 2^bits and on by itself.

    Parameters
    ----------
    values : int64 array, shape (rows, n_attributes)
        Attributes, with a row for the root in front of every sentence.
    starts : int64 array, shape (n_sentences + 1,)
    """
    lengths = np.diff(starts)
    longest = int(lengths.max())
    position = np.arange(starts[-1]) - np.repeat(starts[:-1], lengths)
    length = np.repeat(lengths, lengths)
    is_root = position == 0
    # entry of (row, template t): sentence by sentence, template by template
    place = np.repeat(starts[:-1], lengths) * len(templates) + position
    head_keys = np.empty(starts[-1] * len(templates), np.int32)
    word_keys = np.empty_like(head_keys)
    distances = np.arange(-longest, longest + 1)
    distance_keys = np.zeros((len(templates), len(distances)), np.int32)
    root_keys = np.zeros(len(templates), np.int32)
    kind_keys = np.zeros((len(templates), MOST_KINDS), np.int32)
    used = sorted({max(template.set_column, template.each_column) for template in templates} - {-1})
    kinds = np.zeros((len(used), len(values)), np.uint8)
    for k, column in enumerate(used):
        kinds[k] = np.where(is_root, 0, values[:, column])

    def node_keys(atoms, seed):
        key = np.full(len(values), seed, np.uint64)
        for column, shift in atoms:
            there = position + shift
            inside = (there >= 0) & (there < length)
            value = values[np.clip(np.arange(len(values)) + shift, 0, len(values) - 1), column]
            value = np.where(inside, np.where(there == 0, ROOT, value), OUTSIDE)
            key = _mix(key ^ _mix(value.astype(np.uint64)))
        return _cut(key, bits) if atoms else np.zeros(len(values), np.int32)

    for t, template in enumerate(templates):
        seed = np.uint64(4 * template.seed)
        block = t << bits if blocks else 0
        head_keys[place + t * length] = node_keys(template.head, seed) + block
        word_keys[place + t * length] = node_keys(template.word, seed + np.uint64(1))
        if template.measure:
            bucket = np.searchsorted(EDGES, np.abs(distances), side="right") if template.measure == "distance" else 1
            codes = np.sign(distances) * bucket + 64
            distance_keys[t] = _cut(_mix(_mix(codes.astype(np.uint64)) ^ (seed + np.uint64(2))), bits)
            root_keys[t] = _cut(_mix(_mix(np.full(1, 1000, np.uint64)) ^ (seed + np.uint64(2))), bits)[0]
        kind_keys[t] = _cut(_mix(_mix(np.arange(MOST_KINDS, dtype=np.uint64)) ^ (seed + np.uint64(3))), bits)

    def columns(name):
        found = [getattr(template, name) for template in templates]
        return np.array([used.index(column) if column >= 0 else -1 for column in found], np.int32)

    return Keys(head_keys, word_keys, distance_keys, root_keys, columns("set_column"), columns("each_column"), kinds,
                kind_keys)


def _mix(x):
    """Every bit of the result depends on every bit of x (the finaliser of SplitMix64, Steele et al. 2014)."""
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def _cut(key, bits):
    return (key >> np.uint64(64 - bits)).astype(np.int32)
