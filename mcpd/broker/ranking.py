"""Which tools a few words mean: an index over names, titles and descriptions, and the order of what matches.

This is BM25 with fields. A length is compared with a fixed one instead of with the average, so that the
lists of many servers can be indexed apart, once each, and are still ranked as one collection: only how
rare a word is depends on all of them, and that is counted when it is asked for.
"""

from __future__ import annotations

import heapq
import re
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from math import log
from typing import NamedTuple

# What one word is worth in each field. A description counts a word twice at most, so that no
# description outdoes a name.
NAME, TITLE, SERVER, DESCRIPTION = 6.0, 3.0, 2.0, 1.0
MOST_OFTEN = 2
SATURATION = 1.2
# Of two names with the same words the shorter one says it better.
PER_NAME_WORD = 0.08
# How much the length of a description matters, and the one that is neither long nor short, in words.
LENGTH_SHARE, USUAL_WORDS = 0.5, 30
# Longer descriptions have said by then what the tool does; indexing them takes time that others wait for.
DESCRIPTION_CHARACTERS = 600
# The beginning of a word is worth less than the word; one letter begins too many.
PREFIX_LEAST, PREFIX_SHARE, PREFIX_LETTERS = 0.4, 0.5, 2
# More words than this are a text; each one costs a look into every list.
MAX_TERMS = 16
# Scores are 0 to 1: the tool of that very name, the tool whose name has just these words, the others.
EXACT, SAME_WORDS = 1.0, 0.9

# Of scripts without spaces every character is a word.
_UNSPACED = "぀-ヿ㐀-䶿一-鿿豈-﫿"
_WORD = re.compile(f"[{_UNSPACED}]|[^\\W_{_UNSPACED}]+")
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[^\W\d_A-Z]+|\d+")
# What a question has besides what it asks for.
_FILLERS = frozenset((
    "a", "all", "an", "and", "any", "are", "by", "can", "do", "does", "for", "from", "how", "i", "in", "is", "it", "me",
    "my", "of", "on", "or", "please", "that", "the", "this", "to", "what", "which", "with",
))  # fmt: skip


class Document(NamedTuple):
    """What is indexed of one tool."""

    name: str
    title: str = ""
    description: str = ""


class Hit(NamedTuple):
    """A document that matches: of which of the indexes that were searched, which one, and how well."""

    source: int
    position: int
    score: float


class Index:
    """The words of one server's list.

    Attributes:
        size: how many documents it has.
    """

    def __init__(self, server: str, documents: Sequence[Document]) -> None:
        self.size = len(documents)
        self._server = server
        self._named: dict[str, int] = {}
        self._same: dict[str, list[int]] = {}
        self._postings: defaultdict[str, list[tuple[int, float]]] = defaultdict(list)
        around = dict.fromkeys(_name_terms(_parts(server)), SERVER)
        for position, document in enumerate(documents):
            if document.name:
                self._named.setdefault(document.name, position)
            parts = _parts(document.name)
            self._same.setdefault("".join(parts), []).append(position)
            self._add(position, _weights(around, parts, document.title), document.description)
        self._vocabulary = sorted(self._postings)

    def _add(self, position: int, weights: dict[str, float], description: str) -> None:
        """File a document under its words; most words are in the description alone."""
        postings = self._postings
        described = Counter(_stems(description[:DESCRIPTION_CHARACTERS]))
        length = 1 - LENGTH_SHARE + LENGTH_SHARE * described.total() / USUAL_WORDS
        worth = DESCRIPTION / max(length, 1.0)
        for term in weights:
            weight = weights[term] + worth * min(described.pop(term, 0), MOST_OFTEN)
            postings[term].append((position, weight / (weight + SATURATION)))
        once = position, worth / (worth + SATURATION)
        often = position, MOST_OFTEN * worth / (MOST_OFTEN * worth + SATURATION)
        for term, count in described.items():
            postings[term].append(once if count < MOST_OFTEN else often)

    def matches(self, word: str) -> dict[int, float]:
        """Return what has a word, or one that begins with it, and how much that is worth, up to 1."""
        whole = _stem(word)
        found = dict(self._postings.get(whole, ()))
        for term in self._beginning_with(word) if len(word) >= PREFIX_LETTERS else ():
            share = PREFIX_LEAST + PREFIX_SHARE * len(word) / len(term)
            for position, weight in self._postings[term] if term != whole else ():
                if weight * share > found.get(position, 0.0):
                    found[position] = weight * share
        return found

    def _beginning_with(self, word: str) -> Iterator[str]:
        vocabulary = self._vocabulary
        for place in range(bisect_left(vocabulary, word), len(vocabulary)):
            if not vocabulary[place].startswith(word):
                return
            yield vocabulary[place]

    def named(self, query: str) -> int | None:
        """Return what is called exactly that, with or without its server in front."""
        position = self._named.get(query)
        return position if position is not None else self._named.get(query.removeprefix(f"{self._server}."))

    def same_words(self, query: str) -> list[int]:
        """Return what has a name of these words in this order, however they are joined."""
        return self._same.get("".join(_parts(query)) or " ", [])


def rank(query: str, indexes: Sequence[Index], limit: int) -> tuple[list[Hit], int]:
    """Return the best documents, best first, and how many match at all.

    Equal ones keep the order of the indexes and of the documents in them.
    """
    query = query.strip()
    scores: list[dict[int, float]] = [{} for _ in indexes]
    total_weight = 0.0
    size = sum(index.size for index in indexes)
    for word in _asked(query, indexes):
        found = [index.matches(word) for index in indexes]
        count = sum(map(len, found))
        rarity = log(1 + (size - count + 0.5) / (count + 0.5))
        total_weight += rarity
        for score, matches in zip(scores, found, strict=True):
            for position, weight in matches.items():
                score[position] = score.get(position, 0.0) + rarity * weight
    for index, score in zip(indexes, scores, strict=True):
        _scale(index, score, query, total_weight)
    hits = [(-value, number, position) for number, score in enumerate(scores) for position, value in score.items()]
    best = heapq.nsmallest(limit, hits)
    return [Hit(number, position, round(-value, 4)) for value, number, position in best], len(hits)


def _scale(index: Index, score: dict[int, float], query: str, total_weight: float) -> None:
    """Bring the scores of one index between 0 and 1, and names that are what was asked for to the top."""
    for position, value in score.items():
        score[position] = SAME_WORDS * value / total_weight
    for position in index.same_words(query):
        score[position] = SAME_WORDS + (EXACT - SAME_WORDS) * score.get(position, 0.0)
    if (exact := index.named(query)) is not None:
        score[exact] = EXACT


def _asked(query: str, indexes: Sequence[Index]) -> list[str]:
    """Return the words to look for; what is in no list as it is written is taken apart, as in `getUser`."""
    words: dict[str, None] = {}
    for written in _WORD.findall(query):
        whole = written.lower()
        parts = [part.lower() for part in _PART.findall(written)]
        if len(parts) > 1 and not any(index.matches(whole) for index in indexes):
            words |= dict.fromkeys(parts)
        else:
            words[whole] = None
        if len(words) >= MAX_TERMS:
            break
    asked = [word for word in words if word not in _FILLERS] or list(words)
    return asked[:MAX_TERMS]


def _weights(around: dict[str, float], name: Sequence[str], title: str) -> dict[str, float]:
    """Return what each word of a name, a title and what is around them is worth."""
    weights = dict(around)
    in_name = NAME / (1 + PER_NAME_WORD * (len(name) - 1))
    for term in set(_name_terms(name)):
        weights[term] = weights.get(term, 0.0) + in_name
    for term in set(_stems(title)):
        weights[term] = weights.get(term, 0.0) + TITLE
    return weights


def _parts(name: str) -> list[str]:
    """Split a name where case, digits or signs do: `getUser2`, `read_file`, `x.y-z`."""
    return [_stem(part.lower()) for word in _WORD.findall(name) for part in _PART.findall(word)]


def _name_terms(parts: Sequence[str]) -> Iterable[str]:
    """Return the words of a name, and neighbours joined: who asks for `github` means GitHub, too."""
    yield from parts
    yield from (one + other for one, other in pairwise(parts))
    if len(parts) > 2:
        yield "".join(parts)


def _stems(text: str) -> Iterator[str]:
    return map(_stem, _WORD.findall(text.lower()))


@lru_cache(maxsize=1 << 13)
def _stem(word: str) -> str:
    """Return a word without the ending of its plural, the same for both; it need not be a word any more."""
    if len(word) > 2 and word[-1] == "s" and word[-2] not in "sui":
        word = word[:-1]
    if len(word) > 3 and word.endswith("ie"):
        return f"{word[:-2]}y"
    if len(word) > 3 and word[-1] == "e" and (word[-2] in "sxz" or word[-3:-1] in ("ch", "sh")):
        return word[:-1]
    return word
