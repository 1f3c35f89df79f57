"""Train the reader of names (llm/embedding/name_tagger.py) on marked sentences, and say how well it reads those held out.

Needs torch (the extra "train"). Lines that have two names of a line held out are not learned. States come from this machine's
fastest engine, of lines by themselves, joined to windows, and in other capitals.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import random
import re
import time
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from pg_graphrag.llm.embedding import load, name_tagger
from pg_graphrag.llm.embedding.document_embedder import fastest
from pg_graphrag.llm.embedding.local_model import LocalModel, numpy_encoder
from pg_graphrag.llm.embedding.name_tagger import (
    FIRST,
    FOLLOWING,
    INNER,
    LABELS,
    LAST,
    NEVER,
    REACH,
    SINGLE,
    TYPES,
    NameTagger,
    UnitInputs,
    in_floats,
    unit_inputs,
)
from pg_graphrag.text.outline import PATH_JOINT
from torch import nn

from bench.naming.marked import SENTENCES, Marked, Place, read

_WITHOUT_BLANKS = ("ja", "zh", "zh-hant")
_INFLECTED = ("pl", "ru")
_LAYERS = {"multilingual-e5-small": (6, 9, 12), "all-MiniLM-L6-v2": (2, 4, 6)}
# Of fewer texts more epochs; the shipped weights are of these seeds.
_EPOCHS = {"multilingual-e5-small": 6, "all-MiniLM-L6-v2": 20}
_SEED = {"multilingual-e5-small": 1, "all-MiniLM-L6-v2": 2}
# Shares of the lines that are joined, get other names, or are written in other capitals.
_JOINED, _RENAMED, _RECAPITALISED = 0.5, 0.35, 0.2
# Units of a batch.
_UNITS = 1500


class Example(NamedTuple):
    """A text as the network gets it; the type of a unit outside of names is -1."""

    marked: Marked
    inputs: UnitInputs
    states: np.ndarray[Any, np.dtype[np.float16]]
    labels: np.ndarray[Any, np.dtype[np.int64]]
    types: np.ndarray[Any, np.dtype[np.int64]]
    is_cut: bool  # a name and the units do not agree


def without_stories(train: Sequence[Marked], held_out: Sequence[Marked]) -> list[Marked]:
    """Return the lines that share no two names with a line that is held out."""
    pairs: set[tuple[str, str]] = set()
    for marked in held_out:
        names = sorted(_names(marked))
        pairs.update((a, b) for a in names for b in names if a < b)
    return [
        marked
        for marked in train
        if not any((a, b) in pairs for names in [sorted(_names(marked))] for a in names for b in names if a < b)
    ]


def _names(marked: Marked) -> set[str]:
    return {marked.text[start:end] for start, end, _ in marked.names}


def joined(lines: Sequence[Marked], choose: random.Random) -> Iterator[Marked]:
    """Yield windows of a language: lines one after the other, some with a title."""
    rest = list(lines)
    choose.shuffle(rest)
    rest.sort(key=lambda marked: (marked.kind, choose.random()) if choose.random() < 0.8 else ("", 0.0))
    while rest:
        count = choose.choice((1, 2, 2, 3, 4, 5, 6, 8))
        group, rest = rest[:count], rest[count:]
        blank = "" if group[0].language in _WITHOUT_BLANKS else " "
        separator = choose.choice((blank, blank, "\n", "\n\n"))
        joints = [separator] * len(group)
        if choose.random() < 0.4 and len(group) > 1:
            joints[0] = "\n"  # the first line is a title
        if choose.random() < 0.1 and len(group) > 2:
            joints[:2] = PATH_JOINT, "\n"  # title and section
        text = ""
        names: list[Place] = []
        for line, joint in zip(group, joints, strict=True):
            names += [(start + len(text), end + len(text), kind) for start, end, kind in line.names]
            text += line.text + joint
        yield Marked(text.strip(), names, group[0].language, group[0].kind)


def with_other_names(lines: Sequence[Marked], choose: random.Random) -> Iterator[Marked]:
    """Yield the lines of a language with other names of the same types and as many words, where names are not inflected."""
    if lines and lines[0].language in _INFLECTED:
        return
    names: dict[tuple[int, int], list[str]] = {}
    for marked in lines:
        for start, end, kind in marked.names:
            names.setdefault((kind, _size(marked.text[start:end])), []).append(marked.text[start:end])
    for marked in lines:
        text, position = "", 0
        replaced: list[Place] = []
        for start, end, kind in marked.names:
            name = marked.text[start:end]
            if choose.random() < 0.8:
                name = choose.choice(names[kind, _size(name)])
            text += marked.text[position:start]
            replaced.append((len(text), len(text) + len(name), kind))
            text += name
            position = end
        if replaced:
            yield marked._replace(text=text + marked.text[position:], names=replaced)


def _size(name: str) -> int:
    return min(len(name.split()), 3) if " " in name or name.isascii() else 10 + min(len(name), 5)


def in_other_capitals(lines: Sequence[Marked], choose: random.Random) -> Iterator[Marked]:
    """Yield some lines in small letters, in capitals, or in Title Case."""
    for marked in lines:
        if marked.language in (*_WITHOUT_BLANKS, "ko") or choose.random() > _RECAPITALISED:
            continue
        change = choose.choice((str.lower, str.lower, str.upper, _title_case))
        if len(text := change(marked.text)) == len(marked.text):
            yield marked._replace(text=text)


def _title_case(text: str) -> str:
    return re.sub(r"(?<!\S)[^\W\d_]", lambda match: match[0].upper(), text)


def examples(texts: Sequence[Marked], model: LocalModel) -> list[Example]:
    """Return texts with the states of their tokens."""
    layers = _LAYERS[model.model]
    tokens = [model.tokens_with_spans(marked.text) for marked in texts]
    states: dict[int, Any] = {}
    encoder = model._encoder
    for step in encoder.steps({number: len(ids) for number, (ids, _) in enumerate(tokens)}):
        _, of_step = encoder.encode_with_states([tokens[number][0] for number in step], layers)
        states.update(zip(step, (array.astype(np.float16) for array in of_step), strict=True))
    result = []
    for number, (marked, (_, spans)) in enumerate(zip(texts, tokens, strict=True)):
        inputs = unit_inputs(marked.text, spans)
        result.append(labelled(marked, inputs, states[number]))
    return result


def labelled(marked: Marked, inputs: UnitInputs, states: Any) -> Example:
    """Return a text with the labels of its units."""
    labels, types = np.zeros(len(inputs.places), np.int64), np.full(len(inputs.places), -1, np.int64)
    is_cut = False
    for start, end, kind in marked.names:
        inner = [k for k, (a, b) in enumerate(inputs.places) if a < end and b > start]
        if not inner:  # behind the last token
            continue
        first, last = inner[0], inner[-1]
        is_cut |= inputs.places[first][0] < start or inputs.places[last][1] > end
        labels[first : last + 1] = INNER
        labels[first], labels[last] = FIRST, LAST
        if first == last:
            labels[first] = SINGLE
        types[first : last + 1] = kind
    return Example(marked, inputs, states, labels, types, is_cut)


class Network(nn.Module):
    """`NameTagger`, to be trained."""

    def __init__(self, inputs: int, traits: int, width: int, depth: int, dropout: float) -> None:
        super().__init__()
        self.tokens = nn.Linear(inputs, 2 * width, bias=False)
        self.traits = nn.Linear(traits, width)
        self.norm = nn.LayerNorm(width)
        self.convolutions = nn.ModuleList(nn.Linear((2 * REACH + 1) * width, width) for _ in range(depth))
        self.scores = nn.Linear(width, len(LABELS) + len(TYPES))
        self.transitions = nn.Parameter(torch.zeros(len(LABELS), len(LABELS)))
        forbidden = torch.full((len(LABELS), len(LABELS)), float(NEVER))
        for label, following in FOLLOWING.items():
            forbidden[label, list(following)] = 0
        self.register_buffer("forbidden", forbidden)
        self.register_buffer(
            "begin", torch.tensor([0.0 if label in FOLLOWING[0] else float(NEVER) for label in LABELS])
        )
        self.register_buffer("end", torch.tensor([0.0 if 0 in FOLLOWING[label] else float(NEVER) for label in LABELS]))
        self.width, self.dropout = width, nn.Dropout(dropout)

    def forward(self, batch: Batch) -> Any:
        by_token = self.tokens(batch.states)
        x = by_token[batch.first, : self.width] + by_token[batch.last, self.width :] + self.traits(batch.traits)
        x = self.dropout(torch.relu(self.norm(x))) * batch.mask[..., None]
        length = x.shape[1]
        for convolution in self.convolutions:
            padded = nn.functional.pad(x, (0, 0, REACH, REACH))
            around = torch.cat([padded[:, start : start + length] for start in range(2 * REACH + 1)], dim=2)
            x = x + self.dropout(torch.relu(convolution(around))) * batch.mask[..., None]
        return self.scores(x)

    def loss(self, batch: Batch) -> Any:
        """Return the mean negative log likelihood of a unit's label, and of the type of a unit in a name."""
        with torch.autocast("cpu", torch.bfloat16):
            scores = self(batch)
        scores, of_types = scores.float().split([len(LABELS), len(TYPES)], dim=2)
        transitions = self.transitions + self.forbidden
        path = (scores.gather(2, batch.labels[..., None])[..., 0] * batch.mask).sum()
        path = path + (transitions[batch.labels[:, :-1], batch.labels[:, 1:]] * batch.mask[:, 1:]).sum()
        total = self.begin + scores[:, 0]
        for place in range(1, scores.shape[1]):
            following = torch.logsumexp(total[:, :, None] + transitions, dim=1) + scores[:, place]
            total = torch.where(batch.mask[:, place, None] > 0, following, total)
        likelihood = torch.logsumexp(total + self.end, dim=1).sum() - path
        is_name = batch.types >= 0
        typed = nn.functional.cross_entropy(of_types[is_name], batch.types[is_name], reduction="sum")
        return (likelihood + 0.5 * typed) / batch.mask.sum()

    def weights(self, layers: Sequence[int], mean: Any, deviation: Any) -> dict[str, Any]:
        """Return arrays as `NameTagger` reads them; the scale of states goes into their projection."""
        state = {name: tensor.detach().numpy() for name, tensor in self.state_dict().items()}
        tokens = state["tokens.weight"].T
        shift = mean / deviation @ tokens
        arrays = {
            "traits": state["traits.weight"].T,
            "bias": state["traits.bias"] - shift[: self.width] - shift[self.width :],
            "scores.weight": state["scores.weight"].T,
            "transitions": np.maximum(state["transitions"] + state["forbidden"], float(NEVER)),
            **{name: state[name] for name in ("norm.weight", "norm.bias", "scores.bias", "begin", "end")},
        }
        large = {"tokens": tokens}
        for number in range(len(self.convolutions)):
            large[f"conv.{number}.weight"] = state[f"convolutions.{number}.weight"].T
            arrays[f"conv.{number}.bias"] = state[f"convolutions.{number}.bias"]
        of_bytes: dict[str, Any] = {"layers": np.array(layers, np.int32)}
        for name, array in large.items():
            scale = (np.abs(array).max(axis=0) / 127).astype(np.float16)
            of_bytes[f"{name}.scale"] = scale
            of_bytes[name] = np.rint(array / scale.astype(np.float32)).clip(-127, 127).astype(np.int8)
        # Deviations of states differ by more than eight bits have.
        of_bytes["deviation"] = deviation.astype(np.float32)
        return {**of_bytes, **{name: array.astype(np.float16) for name, array in arrays.items()}}


class Batch(NamedTuple):
    """Padded texts: states of all their tokens one after the other, the rest (texts, units, …)."""

    states: Any
    first: Any
    last: Any
    traits: Any
    labels: Any
    types: Any
    mask: Any


def batch(chosen: Sequence[Example], mean: Any, deviation: Any) -> Batch:
    """Return a batch of texts."""
    longest = max(len(example.labels) for example in chosen)
    shape = len(chosen), longest
    first, last, labels = np.zeros(shape, np.int64), np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    types = np.full(shape, -1, np.int64)
    traits = np.zeros((*shape, chosen[0].inputs.traits.shape[1]), np.float32)
    mask = np.zeros(shape, np.float32)
    offset = 0
    for number, example in enumerate(chosen):
        count = len(example.labels)
        first[number, :count] = example.inputs.first + offset
        last[number, :count] = example.inputs.last + offset
        traits[number, :count] = example.inputs.traits
        labels[number, :count] = example.labels
        types[number, :count] = example.types
        mask[number, :count] = 1
        offset += len(example.states)
    states = (np.concatenate([example.states for example in chosen]).astype(np.float32) - mean) / deviation
    return Batch(*map(torch.from_numpy, (states.astype(np.float32), first, last, traits, labels, types, mask)))


def batches(all_examples: Sequence[Example], units: int, choose: random.Random) -> list[list[Example]]:
    """Return the examples in batches of about so many units, in chance order; texts of about one length together."""
    ordered = sorted(all_examples, key=lambda example: len(example.labels) * choose.uniform(0.8, 1.25))
    result: list[list[Example]] = []
    current: list[Example] = []
    for example in ordered:
        current.append(example)
        if len(example.labels) * len(current) >= units:
            result.append(current)
            current = []
    if current:
        result.append(current)
    choose.shuffle(result)
    return result


def train(data: Sequence[Example], width: int, depth: int, epochs: int, seed: int) -> tuple[Network, Any, Any]:
    """Return a trained network, mean and deviation of the states."""
    torch.manual_seed(seed)
    choose = random.Random(seed)
    sample = np.concatenate([example.states for example in data[:: max(1, len(data) // 2000)]]).astype(np.float32)
    mean, deviation = sample.mean(axis=0), sample.std(axis=0) + 1e-3
    network = Network(sample.shape[1], data[0].inputs.traits.shape[1], width, depth, 0.25)
    optimiser = torch.optim.AdamW(network.parameters(), lr=2e-3, weight_decay=2e-2)
    steps = epochs * len(batches(data, _UNITS, random.Random(0)))
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimiser, lambda step: min(1.0, step / 200) * max(0.02, 1 - step / steps)
    )
    network.train()
    for epoch in range(epochs):
        begun, total = time.process_time(), 0.0
        all_batches = batches(data, _UNITS, choose)
        for chosen in all_batches:
            of_batch = batch(chosen, mean, deviation)
            loss = network.loss(of_batch._replace(states=nn.functional.dropout(of_batch.states, 0.15)))
            optimiser.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(network.parameters(), 2.0)
            optimiser.step()
            schedule.step()
            total += loss.item()
        print(
            f"epoch {epoch + 1}: loss {total / len(all_batches):.4f}, {time.process_time() - begun:.0f} s", flush=True
        )
    network.eval()
    return network, mean, deviation


class Counts(NamedTuple):
    """Names in the text, found, found as they are, those of them with the right type."""

    there: int = 0
    found: int = 0
    right: int = 0
    typed: int = 0


def counts(tagger: NameTagger, data: Sequence[Example], threshold: float = 0.0) -> dict[str, Counts]:
    """Return the counts of each language."""
    by_language: dict[str, Counts] = {}
    for example, names in zip(data, read_names(tagger, data), strict=True):
        there = {(start, end): TYPES[kind] for start, end, kind in example.marked.names}
        found = {(name.start, name.end): name.type for name in names if name.probability >= threshold}
        right = there.keys() & found.keys()
        before = by_language.get(example.marked.language, Counts())
        now = len(there), len(found), len(right), sum(there[place] == found[place] for place in right)
        by_language[example.marked.language] = Counts(*(a + b for a, b in zip(before, now, strict=True)))
    return by_language


def read_names(tagger: NameTagger, data: Sequence[Example]) -> list[list[name_tagger.TaggedName]]:
    """Return what a tagger reads in texts whose states are there."""
    scores = [tagger.scores(example.inputs, example.states.astype(np.float32)) for example in data]
    return list(
        chain.from_iterable(
            tagger.decoded([example.inputs.places for example in data[start : start + 16]], scores[start : start + 16])
            for start in range(0, len(data), 16)
        )
    )


def report(what: str, tagger: NameTagger, data: Sequence[Example], threshold: float = 0.0) -> None:
    """Print recall, precision and right types of each language."""
    print(f"{what}: recall, precision, of what is right the right types")
    for language, (there, found, right, typed) in sorted(counts(tagger, data, threshold).items()):
        figures = right / max(there, 1), right / max(found, 1), typed / max(right, 1)
        print(f"  {language:8}" + "".join(f"{figure:8.3f}" for figure in figures), flush=True)


def texts_to_train_with(lines: Sequence[Marked], choose: random.Random) -> list[Marked]:
    """Return lines of one language as they are, joined to windows, with other names, and in other capitals."""
    others = with_other_names(lines, choose)
    return [
        *lines,
        *joined([line for line in lines if choose.random() < _JOINED], choose),
        *(line for line in others if choose.random() < _RENAMED),
        *in_other_capitals(lines, choose),
    ]


def encoder_of(model: str) -> LocalModel:
    """Return a local model with this machine's fastest engine."""
    engine = fastest()[0]
    if engine == "numpy":
        loaded = load(model, numpy_encoder)
    else:
        from pg_graphrag.llm.embedding.engine import EngineEncoder

        loaded = load(model, lambda weights, config: EngineEncoder(weights, config, engine))
    assert isinstance(loaded, LocalModel)
    return loaded


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="multilingual-e5-small", choices=_LAYERS)
    parser.add_argument("--languages", help="as de,en; by default all that the model was made for")
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--depth", type=int, default=2)
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--seed", type=int)
    options = parser.parse_args()
    epochs, seed = options.epochs or _EPOCHS[options.model], options.seed or _SEED[options.model]
    torch.set_num_threads(1)
    choose = random.Random(seed)
    model = encoder_of(options.model)
    known = sorted(path.stem for path in SENTENCES.glob("*.txt") if path.stem.split("-")[0] in model.languages)
    languages = options.languages.split(",") if options.languages else known
    parts = {language: read(language) for language in languages}
    held_out = [line for _, unseen in parts.values() for line in unseen]
    texts = [
        text for lines, _ in parts.values() for text in texts_to_train_with(without_stories(lines, held_out), choose)
    ]
    windows = [window for _, unseen in parts.values() for window in joined(unseen, choose)]
    print(f"{len(texts)} texts to train with, {len(held_out)} lines held out", flush=True)
    begun = time.process_time()
    data, unseen, unseen_windows = (examples(some, model) for some in (texts, held_out, windows))
    data = [example for example in data if not example.is_cut and len(example.labels)]
    tokens = sum(len(example.states) for example in data)
    print(f"states of {tokens} tokens by {fastest()[0]}: {time.process_time() - begun:.0f} s", flush=True)
    network, mean, deviation = train(data, options.width, options.depth, epochs, seed)
    arrays = network.weights(_LAYERS[options.model], mean, deviation)
    tagger = NameTagger(in_floats(arrays))
    report("lines", tagger, unseen)
    report("windows", tagger, unseen_windows)
    for threshold in (0.5, 0.7):
        report(f"lines, from a probability of {threshold}", tagger, unseen, threshold)
    path = Path(name_tagger.__file__).with_name(f"names-{options.model}.npz")
    # `python -m bench gate` fits it.
    with np.load(path) as former:
        arrays["terms"] = former["terms"]
    content = io.BytesIO()
    np.savez(content, **arrays)
    path.write_bytes(content.getvalue())
    print(f"{path.name}: {path.stat().st_size} bytes, SHA-256 {hashlib.sha256(content.getvalue()).hexdigest()}")


if __name__ == "__main__":
    main()
