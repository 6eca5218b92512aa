"""summary.html: one page on a run that stands by itself: no script, no other file, light or dark, screen or paper."""

import datetime
import math
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from tbd.measure.figures import Figures
from tbd.measure.jsonl import read_object
from tbd.measure.metrics import GROUPS, MEMORY, METRICS, OTHER, find, number
from tbd.tracking import roofline_page
from tbd.tracking.plots import line_plot, share_bar, stacked_bar
from tbd.tracking.spool import Spool

OPERATORS = 15
STRUCTURES = {
    "weights": "weights",
    "weight_gradients": "weight gradients",
    "optimizer_state": "optimizer state",
    "feature_maps": "feature maps",
    "workspace": "workspace",
    "input": "input",
    "communication": "communication",
    "other": "other",
}
OTHER_MEMORY = (
    "memory/feature_maps_share",
    "memory/feature_maps_share_of_structures",
    "memory/slack_mb",
    "memory/untracked_mb",
    "memory/outside_allocator_mb",
)
STYLE = """
:root{color-scheme:light dark;--ink:#1c2024;--soft:#5d6670;--paper:#fff;--panel:#f5f6f8;--rule:#d9dde2;--accent:#2166ac;
--good:#1a7f37;--bad:#b42318;--c0:#2166ac;--c1:#5aa5d8;--c2:#7b5aa6;--c3:#d9822b;--c4:#2a9d8f;--c5:#c44e7b;--c6:#8a8f98;
--c7:#b9bec6}
@media(prefers-color-scheme:dark){:root{--ink:#e8eaed;--soft:#a2abb5;--paper:#15181c;--panel:#1e2227;--rule:#363c44;
--accent:#6db3f2;--good:#56c271;--bad:#ff8a7a;--c0:#4a90d9;--c1:#8cc8ef;--c2:#a88bd0;--c3:#f0a452;--c4:#4fc3b3;
--c5:#e27fa4}}
*{box-sizing:border-box}body{margin:0 auto;padding:24px;max-width:800px;background:var(--paper);color:var(--ink);
font:15px/1.5 system-ui,sans-serif}h1{font-size:24px;margin:0 0 4px;overflow-wrap:anywhere}
h2{font-size:17px;margin:32px 0 8px;border-bottom:1px solid var(--rule);padding-bottom:4px}
.status{display:inline-block;border:1.5px solid;border-radius:4px;padding:0 8px;font-weight:600;color:var(--bad)}
.status.ok{color:var(--good)}.cause{margin:4px 0}dl{display:grid;grid-template-columns:max-content 1fr;gap:2px 16px;
margin:12px 0}
dt{color:var(--soft)}dd{margin:0;overflow-wrap:anywhere}.big{font-size:32px;font-weight:650;margin:8px 0 0}
.big small{font-size:16px;font-weight:400;color:var(--soft)}table{border-collapse:collapse;width:100%;margin:8px 0}
caption{text-align:left;color:var(--soft);font-size:13px;padding-bottom:4px}th{text-align:left;font-weight:600}
td,th{padding:3px 8px 3px 0;border-bottom:1px solid var(--rule);vertical-align:top;overflow-wrap:anywhere}
tbody th{font-weight:400}.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
.unit{color:var(--soft);white-space:nowrap}tr.group th{font-weight:600;padding-top:12px}
svg{width:100%;height:auto;display:block}svg text{fill:var(--soft);font:12px system-ui,sans-serif}
.grid{stroke:var(--rule)}.line{fill:none;stroke:var(--accent);stroke-width:1.8}.dot{fill:var(--accent)}
.band{fill:var(--accent);opacity:.18}.bar{fill:var(--accent)}svg.share{width:90px;height:8px;margin-top:7px}
.key{display:inline-block;width:11px;height:11px;margin-right:7px;border-radius:2px}
.c0{fill:var(--c0);background:var(--c0)}.c1{fill:var(--c1);background:var(--c1)}.c2{fill:var(--c2);background:var(--c2)}
.c3{fill:var(--c3);background:var(--c3)}.c4{fill:var(--c4);background:var(--c4)}.c5{fill:var(--c5);background:var(--c5)}
.c6{fill:var(--c6);background:var(--c6)}.c7{fill:var(--c7);background:var(--c7)}
.warnings{background:var(--panel);border-left:4px solid var(--c3);padding:8px 16px;margin:16px 0}
.warnings ul{margin:4px 0;padding-left:18px}.note{color:var(--soft);font-size:13px}
@media print{body{max-width:none;padding:0;font-size:11pt}h2,svg,tr{break-inside:avoid}h2{break-after:avoid}
*{print-color-adjust:exact;-webkit-print-color-adjust:exact}}
"""


def page(spool: Spool, figures: Figures) -> str:
    """The page as HTML."""
    request = read_object(spool.path / "request.json")
    end = spool.ended() or {"status": "running", "cause": ""}
    sections = [
        _header(spool, request, end),
        _warnings(figures.warnings),
        _throughput(figures),
        _figures(figures),
        _loss(figures),
        _memory(figures),
        _operators(figures),
        roofline_page.section(figures),
        _absent(figures.absent),
    ]
    title = escape(f"{spool.run['name']}: {end['status']}")
    return document(title, sections)


def document(title: str, sections: Iterable[str], style: str = "") -> str:
    """A page that stands alone, of pieces of HTML, in STYLE and what `style` adds. `title` is escaped already."""
    return (
        '<!doctype html>\n<html lang="en">\n<head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{title}</title><style>{STYLE}{style}</style></head>\n<body><main>\n"
        + "\n".join(section for section in sections if section)
        + "\n</main></body>\n</html>\n"
    )


def _header(spool: Spool, request: Mapping[str, Any], end: Mapping[str, Any]) -> str:
    framework: Mapping[str, Any] = {}
    for event in spool.worker_events():
        if event.get("event") == "framework":
            framework = event
    devices = list(dict.fromkeys(str(device.get("name", "")) for device in framework.get("devices", [])))
    model = request.get("model", {})
    hardware = request.get("hardware", {})
    start = datetime.datetime.fromtimestamp(float(spool.run["wall_time"]), datetime.UTC)
    facts = {
        "Model": " ".join(str(model[key]) for key in ("name", "size") if key in model),
        "Framework": f"{request.get('framework', {}).get('name', '')} {framework.get('version', '')}".strip(),
        "Hardware": ", ".join([*filter(None, [str(hardware.get("name", ""))]), *devices]),
        "Threads": hardware.get("threads"),
        "Batch size": request.get("batch_size"),
        "Precision": request.get("precision"),
        "Compile": request.get("compile"),
        "Data": request.get("data", {}).get("name"),
        "Seed": request.get("seed"),
        "Started": start.strftime("%Y-%m-%d %H:%M:%S UTC"),
        "Host": spool.run.get("host"),
        "Code": (spool.run.get("git") or {}).get("commit") or f"tbd {spool.run.get('tbd')}",
        "Spool": spool.id,
    }
    rows = "".join(f"<dt>{escape(key)}</dt><dd>{escape(str(value))}</dd>" for key, value in facts.items() if value)
    status, cause = str(end["status"]), str(end.get("cause") or "")
    return (
        f"<header><h1>{escape(str(spool.run['name']))}</h1>"
        f'<p class="cause"><span class="status {"ok" if status == "ok" else "failed"}">{escape(status)}</span> '
        f"{escape(cause)}</p><dl>{rows}</dl></header>"
    )


def _warnings(warnings: Sequence[str]) -> str:
    if not warnings:
        return ""
    rows = "".join(f"<li>{escape(warning)}</li>" for warning in warnings)
    return f'<section class="warnings"><strong>Warnings</strong><ul>{rows}</ul></section>'


def _throughput(figures: Figures) -> str:
    rate = figures.metrics.get("throughput")
    if rate is None:
        return ""
    metric, unit = METRICS["throughput"], METRICS["throughput"].unit_shown(_items(figures))
    ends = _interval("throughput", figures)
    band = (ends[0], ends[1]) if ends else None
    interval = f", 95 % interval {metric.number(ends[0])} to {metric.number(ends[1])}" if ends else ""
    text = f'<h2>Throughput</h2><p class="big">{metric.number(rate)} <small>{escape(unit)}{interval}</small></p>'
    source = figures.tags.get("tbd.throughput_interval")
    if ends and source:
        text += f'<p class="note">The interval is by {escape(source)}.</p>'
    series = figures.series.get("throughput_over_time", [])
    if len(series) > 1:
        points = [(point.step + 1.0, point.value) for point in series]
        text += line_plot(points, "timed step", unit, f"Throughput over the timed steps, in {unit}{interval}", band)
        text += '<p class="note">Each point is the rate over the steps since the one before'
        text += "; the shaded band is the interval.</p>" if band else ".</p>"
    return f"<section>{text}{_repeats(figures, unit)}</section>"


def _repeats(figures: Figures, unit: str) -> str:
    """A row for each timing pass, where there are several."""
    rows = "".join(
        f'<tr><th scope="row">{escape(str(row["pass"]))}</th><td class="n">{row["throughput"]:,.2f}</td>'
        f'<td class="n">{row["steps"]}</td><td class="n">{row["seconds"]:,.2f}</td></tr>'
        for row in figures.tables.get("repeats", [])
    )
    if not rows:
        return ""
    head = f'<tr><th scope="col">Repeat</th><th scope="col" class="n">{escape(unit)}</th>'
    head += '<th scope="col" class="n">Steps</th><th scope="col" class="n">Seconds</th></tr>'
    return f"<table><caption>Each a process of its own.</caption><thead>{head}</thead><tbody>{rows}</tbody></table>"


def _figures(figures: Figures) -> str:
    found = {name: find(name) for name in figures.metrics}
    hidden = {end for metric in found.values() for end in metric.interval}
    rows = []
    for group in (*(group for group in GROUPS if group != MEMORY), OTHER):
        names = [name for name, metric in found.items() if metric.group == group and name not in hidden]
        if names:
            rows.append(f'<tr class="group"><th colspan="4" scope="colgroup">{escape(group)}</th></tr>')
        rows += [_figure(name, figures) for name in names]
    if not rows:
        return ""
    head = '<tr><th scope="col">Metric</th><th scope="col" class="n">Value</th><th scope="col">Unit</th>'
    head += '<th scope="col" class="n">95 % interval</th></tr>'
    return f"<section><h2>Figures</h2><table><thead>{head}</thead><tbody>{''.join(rows)}</tbody></table></section>"


def _figure(name: str, figures: Figures) -> str:
    metric, ends = find(name), _interval(name, figures)
    interval = f"{metric.number(ends[0])} to {metric.number(ends[1])}" if ends else ""
    meaning = f'<br><span class="note">{escape(metric.meaning)}</span>' if metric.meaning else ""
    return (
        f'<tr><th scope="row">{escape(name)}{meaning}</th><td class="n">{metric.number(figures.metrics[name])}</td>'
        f'<td class="unit">{escape(metric.unit_shown(_items(figures)))}</td><td class="n">{interval}</td></tr>'
    )


def _interval(name: str, figures: Figures) -> list[float]:
    """The two ends of the metric's interval; [] where it has none."""
    ends = find(name).interval
    return [figures.metrics[end] for end in ends] if all(end in figures.metrics for end in ends) else []


def _loss(figures: Figures) -> str:
    series = figures.series.get("loss", [])
    if len(series) < 2:
        return ""
    points = [(float(point.step), point.value) for point in series]
    plot = line_plot(points, "training step, warm-up included", "loss", "Training loss by step")
    return f"<section><h2>Loss</h2>{plot}</section>"


def _memory(figures: Figures) -> str:
    peak = figures.metrics.get("memory/peak_mb")
    found = [(name, figures.metrics.get(f"memory/{name}_mb")) for name in STRUCTURES]
    parts = [(name, value) for name, value in found if value is not None]
    whole, of = (
        (peak, "allocator's peak") if peak else (math.fsum(value for _, value in parts), "recorded buffers' sum")
    )
    if not parts or whole <= 0:
        return ""
    styles = {name: f"c{index}" for index, name in enumerate(STRUCTURES)}
    bar = stacked_bar(
        [(styles[name], max(0.0, value)) for name, value in parts],
        "; ".join(f"{STRUCTURES[name]} {number(value)} MB" for name, value in parts),
    )
    rows = "".join(
        f'<tr><th scope="row"><span class="key {styles[name]}"></span>{escape(STRUCTURES[name])}</th>'
        f'<td class="n">{number(value)}</td><td class="n">{value / whole:.1%}</td></tr>'
        for name, value in parts
    )
    notes = "".join(
        f"<li>{escape(METRICS[name].meaning)}: {_with_unit(name, figures)}</li>"
        for name in OTHER_MEMORY
        if name in figures.metrics
    )
    return (
        f'<section><h2>Memory</h2><p class="big">{number(whole)} <small>MB at the peak</small></p>{bar}'
        f"<table><caption>What is alive at the moment of the peak, by data structure. Shares are of the {of}, "
        f"{number(whole)} MB (1 MB = 10<sup>6</sup> bytes).</caption>"
        '<thead><tr><th scope="col">Data structure</th><th scope="col" class="n">MB</th>'
        f'<th scope="col" class="n">Share</th></tr></thead><tbody>{rows}</tbody></table>'
        + (f'<ul class="note">{notes}</ul>' if notes else "")
        + "</section>"
    )


def _with_unit(name: str, figures: Figures) -> str:
    metric = METRICS[name]
    return f"{metric.number(figures.metrics[name])} {escape(metric.unit_shown(_items(figures)))}"


def _operators(figures: Figures) -> str:
    rows: Iterable[Mapping[str, Any]] = figures.tables.get("operators", [])[:OPERATORS]
    if not rows:
        return ""
    body = "".join(
        f'<tr><th scope="row">{escape(str(row["name"]))}</th><td class="unit">{escape(str(row["category"]))}</td>'
        f'<td class="n">{number(float(row["count_per_step"]))}</td>'
        f'<td class="n">{number(float(row["self_ms_per_step"]))}</td>'
        f'<td class="n">{float(row["share"]):.1%}</td><td>{share_bar(float(row["share"]))}</td></tr>'
        for row in rows
    )
    head = "".join(
        f'<th scope="col"{style}>{name}</th>'
        for name, style in (
            ("Operator", ""),
            ("Kind", ""),
            ("Calls a step", ' class="n"'),
            ("ms a step", ' class="n"'),
            ("Share", ' class="n"'),
        )
    )
    total = len(figures.tables["operators"])
    slower = figures.metrics.get("trace_disturbance")
    disturbed = "" if slower is None else f" The profiler made these steps take {slower:.2f} times as long."
    return (
        f"<section><h2>Operators</h2><table><caption>The {min(OPERATORS, total)} of {total} operators with the "
        "most time of their own, without what they call, in the profiled steps. Shares are of all operators of the "
        f"same kind.{disturbed}</caption><thead><tr>{head}<td></td></tr></thead><tbody>{body}</tbody></table></section>"
    )


def _absent(absent: Mapping[str, str]) -> str:
    if not absent:
        return ""
    by_reason: dict[str, list[str]] = {}
    for name, reason in absent.items():
        by_reason.setdefault(reason, []).append(name)
    rows = "".join(
        f"<tr><td>{escape(', '.join(names))}</td><td>{escape(reason)}</td></tr>" for reason, names in by_reason.items()
    )
    head = '<tr><th scope="col">Figures</th><th scope="col">Why not</th></tr>'
    return f"<section><h2>Not measured</h2><table><thead>{head}</thead><tbody>{rows}</tbody></table></section>"


def _items(figures: Figures) -> str:
    return figures.tags.get("tbd.throughput_unit", "items")
