"""One self-contained page: claims with their evidence, figures, tables, machine facts."""

from __future__ import annotations

import base64
import dataclasses
import json
from collections.abc import Iterable
from html import escape
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import claims, figures, memory, rates, tables
from ._files import write_text
from .config import Experiment
from .curves import Curves
from .figures import Picture
from .methods import METHODS
from .pieces import pieces
from .store import Store
from .tables import Table
from .verdicts import ALONE, FAILS, HOLDS, OPEN, RULE, Claim, Evidence

if TYPE_CHECKING:
    from .bench import Bench

CLASSES = {HOLDS: "holds", FAILS: "fails"}
SHORT = 18
"""Characters of a cell that is not broken into lines."""
AIMS = "What settings were tuned for"
MARKS = {"holds": "✓", "fails": "✗", "open": "–"}


def write(
    store: Store,
    bench: Bench,
    chosen: list[Experiment],
    wanted: list[str],
    curves: Curves,
    quick: bool,
) -> Path:
    """Write the tidy table, figures, tables, claims and the report; return the report's path."""
    facts = tables.environment() | {"form": "quick" if quick else "full"}
    write_text(store.folder / "environment.json", json.dumps(facts, indent=2))
    by_dataset = _kept(bench, chosen, "sizes")
    notes = list(dict.fromkeys(kept["note"] for kept in by_dataset.values() if kept["note"]))
    made: list[Table] = []
    decided: list[Claim] = []
    sizes: dict[str, float] = {}
    at_shape: dict[str, float] = {}
    if "table1" in wanted:
        found = rates.measured(store, quick, bench.watch)
        made.append(rates.rates_table(found))
        decided.append(rates.rates_claim(found))
    if by_dataset:
        made.append(tables.sizes_table(quick, by_dataset, every="table2" in wanted))
    if "memory" in wanted:
        peaks = memory.measured(store, quick)
        made.append(memory.memory_table(peaks))
        sizes = memory.memory()
        at_shape = {label: memory.at_imagenet(label, p) for label, p in peaks.items()}
    pictures: list[Picture] = []
    if curves.runs:
        store.table(curves.rows)
        optima = _kept(bench, chosen, "optima")
        made += [tables.optima_table(optima), tables.tuning_table(bench, curves.tunings.values())]
        made.append(tables.cost_table(bench, chosen))
        traced = memory.peaks_table(bench, chosen)
        made += [] if traced is None else [traced]
        pictures = _figures(curves, chosen, store)
    found_claims = claims.decide_all(curves, sizes, at_shape)
    decided = [c for c in found_claims if c.evidence] + decided
    if quick:  # which decides nothing, so that nothing has changed
        decided = [dataclasses.replace(c, earlier="") for c in decided]
    if decided:
        text = json.dumps([dataclasses.asdict(c) for c in decided], indent=2)
        write_text(store.folder / "claims.json", text)
    first = _First(claims.comparisons(decided), _headline(decided, store))
    made_graphs = tables.graph_tables(bench, chosen)
    for table in [*made, *made_graphs, *([first.table] if first.table.rows else [])]:
        _write_csv(store, table)
    begun = [e for e in chosen if any(key[0] == e.name for key in curves.runs)]
    cards = {"Stand-ins.": notes, "Not run yet. Nothing below rests on these:": _to_come(curves)}
    cards[AIMS] = _aims(curves)
    page = _page(begun, decided, first, pictures, made, facts, cards, quick)
    return write_text(store.folder / "report.html", page)


def _to_come(curves: Curves) -> list[str]:
    """Return what is not run yet, a line per variant of a figure."""
    found: dict[str, list[str]] = {}
    for (experiment, variant, dataset), n_runs in curves.to_come.items():
        begun = any(curves.keys(experiment, variant, dataset))
        words = f"{n_runs} more runs of {dataset}" if begun else dataset
        found.setdefault(f"{experiment}, {variant}", []).append(words)
    return [f"{place}: {', '.join(words)}" for place, words in found.items()]


def _aims(curves: Curves) -> list[str]:
    """Return what settings were tuned for, a line per aim, with the data sets of every figure."""
    found: dict[str, dict[str, dict[str, None]]] = {}
    for (experiment, variant, dataset, method, _), aim in curves.aims.items():
        if METHODS[METHODS[method].tuned_as or method].in_paper:
            place = f"{experiment}, {variant}"
            found.setdefault(aim, {}).setdefault(place, {})[dataset] = None
    told = []
    for aim, places in found.items():
        words = [f"{place}: {', '.join(sets)}" for place, sets in places.items()]
        told.append(f"{aim}: {'; '.join(words)}")
    return told


def _kept(bench: Bench, chosen: list[Experiment], kind: str) -> dict[Any, Any]:
    """Return finished pieces of a kind: sizes by data set, optima by figure and data set."""
    found: dict[Any, Any] = {}
    for experiment in chosen:
        for piece in pieces(experiment):
            if piece.kind == kind and (kept := bench.kept(piece)) is not None:
                raw = "" if piece.variant.scaling == "columns" else f", {piece.variant.scaling}"
                mu = experiment.strength(piece.spec, piece.variant)
                words = f"{experiment.name}, μ = {mu:g}{raw}"
                key = piece.spec.name if kind == "sizes" else (words, piece.spec.name)
                found.setdefault(key, kept)
    return found


@dataclasses.dataclass(frozen=True)
class _First:
    """What the page begins with: ACC-SADMM against each rival."""

    table: Table
    picture: Picture | None


def _headline(decided: list[Claim], store: Store) -> Picture | None:
    evidence = [e for c in claims.compared(decided) for e in c.evidence if e.verdict != ALONE]
    if not evidence or find_spec("matplotlib") is None:
        return None
    return figures.headline(evidence, store.folder / "figures")


def _figures(curves: Curves, chosen: list[Experiment], store: Store) -> list[Picture]:
    if find_spec("matplotlib") is None:
        return []
    return [
        picture
        for experiment in chosen
        for variant in experiment.variants
        if curves.datasets(experiment.name, variant.name)
        for picture in figures.draw(curves, experiment, variant, store.folder / "figures")
    ]


def _write_csv(store: Store, table: Table) -> None:
    def cell(text: str) -> str:
        return f'"{text}"' if "," in text or '"' in text else text

    lines = [",".join(map(cell, row)) for row in (table.columns, *table.rows)]
    write_text(store.folder / "tables" / f"{table.name}.csv", "\n".join(lines) + "\n")


# ---------------------------------------------------------------- the page


def _page(
    chosen: list[Experiment],
    decided: list[Claim],
    first: _First,
    pictures: list[Picture],
    made: list[Table],
    facts: dict[str, str],
    cards: dict[str, list[str]],
    quick: bool,
) -> str:
    style = files("stochadmm_reproduction").joinpath("style.css").read_text(encoding="utf-8")
    parts = [_head(facts, quick, bool(decided), bool(pictures))]
    parts += [_table(first.table)] if first.table.rows else []
    parts += [_picture(first.picture)] if first.picture is not None else []
    parts.append(_cards(chosen, cards))
    if decided:
        parts.append('<h2 id="claims">Claims</h2>')
        parts.append(f"<p>Of {len(decided)} claims: {_counts(c.verdict for c in decided)}.</p>")
        parts.append(_overview(decided))
        parts.append(
            '<p class="soft">In the tables, <b>gap</b> says how many times smaller the gap is '
            "after the same gradients, <b>speed</b> how many times fewer gradients the same gap "
            "takes: geometric means over the seeds, with 95 percent intervals. "
            '<span class="text-holds">✓ holds</span>, <span class="text-fails">✗ does not '
            'hold</span>, <span class="text-open">– not decidable</span>; (changed): it was '
            "published with another verdict at first.</p>"
        )
        rule = "".join(f"<li>{escape(line)}</li>" for line in RULE)
        parts.append(
            f'<details class="card"><summary>When a claim holds</summary><ul>{rule}</ul></details>'
        )
        parts += [_claim(claim) for claim in decided]
    if pictures:
        parts.append('<h2 id="figures">Figures</h2>')
        parts.append(
            '<p class="soft">Lines are means over the seeds (geometric for gaps), bands their '
            "range, dotted lines averages of the iterates (-ERG). A triangle at the lower edge "
            "marks a method that leaves the picture there. Gradients are component gradients "
            "divided by n, full gradients and warm starts included; reads are rows read divided "
            "by n; on grey there is one seed, which decides nothing; seconds are processor "
            "seconds, "
            "without measuring and tuning.</p>"
        )
        parts += [_picture(picture) for picture in pictures]
    if made:
        parts.append('<h2 id="tables">Tables</h2>')
        parts += [_table(table) for table in made]
    parts.append('<h2 id="machine">Versions and machine</h2>')
    cells = [(name, value) for name, value in facts.items()]
    parts.append(_table(Table("machine", "", (), cells)))
    body = "\n".join(parts)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<link rel="icon" href="data:,">\n'
        f"<title>stochadmm: reproduction</title>\n<style>\n{style}</style>\n</head>\n"
        f"<body>\n<main>\n{body}\n</main>\n</body>\n</html>\n"
    )


def _head(facts: dict[str, str], quick: bool, has_claims: bool, has_figures: bool) -> str:
    links = [("claims", has_claims), ("figures", has_figures), ("tables", True), ("machine", True)]
    shown = "".join(f'<a href="#{name}">{name}</a>' for name, there in links if there)
    lines = [
        "<h1>Accelerated stochastic ADMM: the experiments reproduced</h1>",
        '<p class="soft">C. Fang, F. Cheng, Z. Lin, “Faster and Non-ergodic O(1/K) Stochastic '
        "Alternating Direction Method of Multipliers”, NIPS 2017, reproduced with stochadmm "
        f"{escape(facts['stochadmm'])}.</p>",
        f"<nav>{shown}</nav>",
    ]
    if quick:
        lines.append(
            '<div class="card"><b>Quick form.</b> Fewer seeds, shorter runs, samples of the rows: '
            "it shows that everything runs and what to expect; only the full form decides.</div>"
        )
    return "\n".join(lines)


def _cards(chosen: list[Experiment], cards: dict[str, list[str]]) -> str:
    """Return what is missing, and behind a click what settings were tuned for."""
    lines = []
    for name, told in cards.items():
        items = "".join(f"<li>{escape(line)}</li>" for line in told)
        if told and name == AIMS:  # long
            lines.append(
                f'<details class="card"><summary>{name}</summary><ul>{items}</ul></details>'
            )
        elif told:
            lines.append(f'<div class="card"><b>{name}</b><ul>{items}</ul></div>')
    seeds = ", ".join(f"{e.name}: {len(e.seeds)} seeds, {_length(e)}" for e in chosen)
    if seeds:
        lines.append(f'<p class="soft">{escape(seeds)}.</p>')
    return "\n".join(lines)


def _length(experiment: Experiment) -> str:
    """Return how long runs are, in words."""
    counted = {spec.epochs for spec in experiment.datasets}
    if None in counted:
        return f"{experiment.passes:g} gradients"
    return f"{max(n for n in counted if n is not None)} epochs at most"


def _overview(decided: list[Claim]) -> str:
    """Return one line per claim: its verdict, those of its comparisons, a link to them."""
    lines = "".join(
        f'<tr><td><a href="#claim-{c.name}">{escape(c.statement)}</a></td>'
        f'<td class="tight text-{_class(c.verdict)}">{MARKS[_class(c.verdict)]} {c.verdict}'
        f"{' (changed)' if _changed(c) else ''}</td>"
        f'<td class="soft">{_counts(e.verdict for e in c.evidence)}</td></tr>'
        for c in decided
    )
    head = "<tr><th>claim</th><th>verdict</th><th>comparisons behind it</th></tr>"
    return (
        f'<div class="card"><table class="overview"><thead>{head}</thead><tbody>{lines}</tbody>'
        "</table></div>"
    )


def _changed(claim: Claim) -> bool:
    """Say whether a verdict differs from the first publication."""
    return bool(claim.earlier) and claim.earlier != claim.verdict


def _claim(claim: Claim) -> str:
    note = f'<p class="soft">{escape(claim.note)}</p>' if claim.note else ""
    if claim.missing:
        note += f'<p class="soft"><b>What would decide it.</b> {escape(claim.missing)}.</p>'
    if _changed(claim):
        note += (
            f'<p class="soft"><b>Changed.</b> First published as: {claim.earlier}. Since then '
            "columns are scaled, parameters are tuned jointly at the full length of the runs, "
            "some for the whole curve on all rows, and the rule uses intervals over the "
            "seeds.</p>"
        )
    others = {
        "by gap alone": claim.by_gap,
        "by speed alone": claim.by_speed,
        "by reads instead of gradients": claim.by_reads,
        "by seconds": claim.by_time,
    }
    said = "; ".join(f"{words}: {verdict}" for words, verdict in others.items() if verdict)
    beside = f'<p class="soft">{said[0].upper()}{said[1:]}.</p>' if said else ""
    texts = "".join(
        f'<tr><td class="tight">{escape(e.where)}</td><td class="tight">{escape(e.against)}</td>'
        f'<td class="tight text-{_class(e.verdict)}">{e.verdict}</td>'
        f'<td class="tight">{escape(e.figure)}</td>'
        f"<td>{escape(e.text)}{_missing(e)}</td></tr>"
        for e in claim.evidence
    )
    counts = _counts(e.verdict for e in claim.evidence)
    return (
        f'<div class="card" id="claim-{claim.name}"><div class="claim">'
        f"<b>{escape(claim.statement)}</b>"
        f'<span class="badge {_class(claim.verdict)}">{claim.verdict}</span></div>'
        f"{note}{_matrix(claim.evidence)}{beside}"
        f"<details><summary>Evidence: {len(claim.evidence)} comparisons ({counts})"
        f'</summary><div class="wide"><table class="stack">{texts}</table></div></details></div>'
    )


def _missing(e: Evidence) -> str:
    return f"; what would decide it: {escape(e.missing)}" if e.missing else ""


def _matrix(evidence: list[Evidence]) -> str:
    """Return the numbers that decided, a row per place and a column per rival."""
    rows = list(dict.fromkeys(e.where for e in evidence))
    columns = list(dict.fromkeys(e.against for e in evidence))
    cells = {(e.where, e.against): e for e in evidence}
    head = "".join(f"<th>{escape(name)}</th>" for name in columns)
    body = ""
    for row in rows:
        found = [cells.get((row, name)) for name in columns]
        body += f"<tr><th>{escape(row)}</th>" + "".join(map(_cell, found)) + "</tr>"
    return (
        f'<div class="wide"><table class="matrix"><thead><tr><th></th>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def _cell(e: Evidence | None) -> str:
    if e is None:
        return "<td></td>"
    kind, figure = _class(e.verdict), escape(e.figure).replace(", ", "<br>")
    return (
        f'<td class="text-{kind}" title="{e.verdict}"><span class="mark">{MARKS[kind]}</span>'
        f"<span>{figure}</span></td>"
    )


def _counts(verdicts: Iterable[str]) -> str:
    found = list(verdicts)
    words = {HOLDS: "hold", FAILS: "do not hold", OPEN: "not decidable", ALONE: "with one seed"}
    return ", ".join(f"{found.count(v)} {w}" for v, w in words.items() if v in found)


def _class(verdict: str) -> str:
    return CLASSES.get(verdict, "open")


def _picture(picture: Picture) -> str:
    data, title = base64.b64encode(picture.path.read_bytes()).decode("ascii"), picture.title
    return (
        f'<figure class="card"><div class="wide"><img alt="{escape(title)}" '
        f'src="data:image/png;base64,{data}"></div><figcaption>{escape(title)}</figcaption>'
        "</figure>"
    )


def _plain_cell(cell: str) -> str:
    """Return a cell; short ones, numbers above all, stay on one line."""
    kind = ' class="tight"' if len(cell) <= SHORT else ""
    return f"<td{kind}>{escape(cell)}</td>"


def _table(table: Table) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in table.columns)
    rows = "".join("<tr>" + "".join(map(_plain_cell, row)) + "</tr>" for row in table.rows)
    title = f"<h3>{escape(table.title)}</h3>" if table.title else ""
    note = f'<p class="soft">{escape(table.note)}</p>' if table.note else ""
    head = f"<thead><tr>{head}</tr></thead>" if head else ""
    return (
        f'<section class="card">{title}<div class="wide"><table>{head}<tbody>{rows}</tbody>'
        f"</table></div>{note}</section>"
    )
