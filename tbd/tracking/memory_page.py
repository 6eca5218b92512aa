"""memory.html and memory.png: one step's memory as a stacked timeline, bars by data structure, and the top layers.

The page stands by itself: no other file and no library; its script shows the values under the pointer and leaves out
what is clicked away in the legend.
"""

import io
import json
from collections.abc import Sequence
from html import escape
from typing import Any

from tbd.measure.memory import CATEGORIES
from tbd.measure.metrics import number
from tbd.tracking.plots import share_bar, stacked_bar

WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 720, 300, 64, 40, 16
COLOURS = ("#2166ac", "#5aa5d8", "#7b5aa6", "#d9822b", "#2a9d8f", "#c44e7b", "#6f7a33", "#8a8f98")
LAYERS = 20
STYLE = """
:root{color-scheme:light dark;--ink:#1c2024;--soft:#5d6670;--paper:#fff;--rule:#d9dde2}
@media(prefers-color-scheme:dark){:root{--ink:#e8eaed;--soft:#a2abb5;--paper:#15181c;--rule:#363c44}}
*{box-sizing:border-box}body{margin:0 auto;padding:24px;max-width:860px;background:var(--paper);color:var(--ink);
font:15px/1.5 system-ui,sans-serif}h1{font-size:22px;margin:0 0 8px;overflow-wrap:anywhere}
h2{font-size:17px;margin:28px 0 8px;border-bottom:1px solid var(--rule);padding-bottom:4px}
svg{width:100%;height:auto;display:block}svg text{fill:var(--soft);font:12px system-ui,sans-serif}
table{border-collapse:collapse;width:100%;margin:8px 0}caption,.note{text-align:left;color:var(--soft);font-size:13px}
td,th{padding:3px 8px 3px 0;border-bottom:1px solid var(--rule);text-align:left;overflow-wrap:anywhere}
.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}svg.share{width:90px;height:8px}
.bar{fill:#2166ac}.rule{stroke:var(--soft);stroke-dasharray:3 3}.hand{stroke:var(--ink)}
.legend button{font:inherit;font-size:13px;color:inherit;background:none;border:1px solid var(--rule);margin:2px;
border-radius:4px;cursor:pointer;padding:1px 8px}.legend button[aria-pressed=false]{opacity:.4}
.key{display:inline-block;width:11px;height:11px;margin-right:6px;border-radius:2px}
#at{min-height:3em;font-variant-numeric:tabular-nums}
""" + "".join(f".c{index}{{fill:{colour};background:{colour}}}" for index, colour in enumerate(COLOURS))

SCRIPT = """
const d=JSON.parse(document.getElementById('data').textContent),svg=document.getElementById('timeline');
const off=new Set(),hand=document.getElementById('hand'),at=document.getElementById('at');
const X=p=>d.left+(p-d.begin)/((d.end-d.begin)||1)*(d.width-d.left);
function draw(){
  const top=Math.max(1e-9,...d.rows.map(r=>d.categories.reduce((s,c)=>s+(off.has(c)?0:r[c]),0)))*1.05;
  const Y=v=>d.height-d.bottom-v/top*(d.height-d.bottom-d.top);
  const base=d.rows.map(()=>0);
  d.categories.forEach((c,i)=>{
    let up='',down='';
    d.rows.forEach((r,k)=>{
      const x0=X(r.position),x1=X(k+1<d.rows.length?d.rows[k+1].position:d.end),low=base[k];
      const high=low+(off.has(c)?0:r[c]);base[k]=high;
      up+=`${x0.toFixed(1)},${Y(high).toFixed(1)} ${x1.toFixed(1)},${Y(high).toFixed(1)} `;
      down=`${x1.toFixed(1)},${Y(low).toFixed(1)} ${x0.toFixed(1)},${Y(low).toFixed(1)} `+down;
    });
    document.getElementById('area'+i).setAttribute('points',up+down);
  });
  document.querySelectorAll('.tick').forEach((t,i)=>{t.textContent=(top*i/4).toPrecision(3);
    t.setAttribute('y',Y(top*i/4)+4);});
}
svg.addEventListener('pointermove',e=>{
  const box=svg.getBoundingClientRect(),x=(e.clientX-box.left)/box.width*d.width;
  const p=d.begin+(x-d.left)/(d.width-d.left)*(d.end-d.begin);
  let row=d.rows[0];for(const r of d.rows){if(r.position<=p)row=r;}
  hand.setAttribute('x1',x);hand.setAttribute('x2',x);hand.style.display='';
  const phase=Object.entries(d.phases).find(([n,[a,b]])=>a<=p&&p<b);
  const sum=d.categories.reduce((s,c)=>s+row[c],0);
  at.textContent=`${phase?phase[0]+', ':''}event ${row.position}: ${sum.toFixed(2)} MB in buffers; `+
    d.categories.filter(c=>row[c]>0).map(c=>`${c.replaceAll('_',' ')} ${row[c].toFixed(2)}`).join(', ');
});
document.querySelectorAll('.legend button').forEach(b=>b.addEventListener('click',()=>{
  const c=b.dataset.category;off.has(c)?off.delete(c):off.add(c);
  b.setAttribute('aria-pressed',String(!off.has(c)));draw();
}));
draw();
"""


def page(title: str, report: dict[str, Any]) -> str:
    """The HTML page of memory_breakdown.json."""
    peak = report["peak"]
    whole = peak["allocator_mb"]
    apart = [
        ("allocator's slack, within other", peak["slack_mb"]),
        ("held by the allocator and no recorded buffer, within other", peak["untracked_mb"]),
        ("resident memory outside the allocator, in none of the above", peak["outside_allocator_mb"]),
        ("feature maps at their own highest in the step", report["feature_maps_highest_mb"]),
    ]
    notes = "".join(f"<li>{escape(name)}: {_mb(value)}</li>" for name, value in apart)
    head = f"{_mb(whole)} at the peak" if whole else "the allocator told no peak"
    during = f", in the {peak['phase']} pass" if peak["phase"] else ""
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Memory: {escape(title)}</title>'
        f"<style>{STYLE}</style></head><body><h1>Memory of one training step: {escape(title)}</h1>"
        f"<p>{escape(head + during)}, by {escape(report['allocator'] or 'no allocator')}. 1 MB = 10<sup>6</sup> bytes."
        f'</p><p class="note">{escape(report["method"])}.</p>'
        f"<section><h2>Along the step</h2>{_timeline(report)}</section>"
        f"<section><h2>At the peak</h2>{_structures(report)}<ul class=note>{notes}</ul></section>"
        f"<section><h2>Layers</h2>{_layers(report['layers'])}</section>"
        f"<section><h2>Largest buffers at the peak</h2>{_largest(report['largest'])}</section>"
        f"<script>{SCRIPT}</script></body></html>\n"
    )


def _mb(value: float | None) -> str:
    return "not known" if value is None else f"{number(value)} MB"


def _name(category: str) -> str:
    return category.replace("_", " ")


def _timeline(report: dict[str, Any]) -> str:
    begin, end = report["steps"]
    data = {
        "rows": report["timeline"], "categories": CATEGORIES, "phases": report["phases"], "begin": begin, "end": end,
        "width": WIDTH, "height": HEIGHT, "left": LEFT, "bottom": BOTTOM, "top": TOP,
    }  # fmt: skip
    buttons = "".join(
        f'<button type="button" aria-pressed="true" data-category="{name}"><span class="key c{index}"></span>'
        f"{_name(name)}</button>"
        for index, name in enumerate(CATEGORIES)
    )
    areas = "".join(f'<polygon id="area{index}" class="c{index}"/>' for index in range(len(CATEGORIES)))
    scale = (WIDTH - LEFT) / ((end - begin) or 1)
    marks = ""
    for name, (first, after) in report["phases"].items():
        x, middle = LEFT + (first - begin) * scale, LEFT + ((first + after) / 2 - begin) * scale
        marks += f'<line class="rule" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}"/>'
        marks += f'<text x="{middle:.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{escape(name)}</text>'
    ticks = f'<text class="tick" x="{LEFT - 6}" text-anchor="end"></text>' * 5
    note = "" if report["phases"] else "The framework tells no order of its allocations by phase. "
    return (
        f'<div class="legend">{buttons}</div><svg id="timeline" role="img" viewBox="0 0 {WIDTH} {HEIGHT}">'
        f"<title>Memory by data structure along one step</title>{areas}{marks}{ticks}"
        f'<line id="hand" class="hand" y1="{TOP}" y2="{HEIGHT - BOTTOM}" style="display:none"/>'
        f'<text x="{(LEFT + WIDTH) / 2:.0f}" y="{HEIGHT - 6}" text-anchor="middle">the step\'s events in order</text>'
        f'<text transform="translate(14 {HEIGHT / 2:.0f}) rotate(-90)" text-anchor="middle">MB</text></svg>'
        f'<p id="at" class="note">{note}Point at the picture for its values; click a structure to leave it out.</p>'
        f'<script type="application/json" id="data">{json.dumps(data).replace("<", chr(92) + "u003c")}</script>'
    )


def _structures(report: dict[str, Any]) -> str:
    sizes, shares = report["peak"]["categories_mb"], report["shares"]
    bar = stacked_bar(
        [(f"c{index}", max(0.0, sizes[name])) for index, name in enumerate(CATEGORIES)],
        "; ".join(f"{_name(name)} {number(sizes[name])} MB" for name in CATEGORIES),
    )
    rows = "".join(
        f'<tr><th scope="row"><span class="key c{index}"></span>{_name(name)}</th>'
        f'<td class="n">{number(sizes[name])}</td><td class="n">{shares["of_peak"][name]:.1%}</td>'
        f'<td class="n">{_share(shares["of_structures"].get(name))}</td></tr>'
        for index, name in enumerate(CATEGORIES)
    )
    return (
        f"{bar}<table><caption>The first share is of {shares['of_peak_denominator']}, the second, the TBD paper's, of "
        f"{escape(_name(shares['of_structures_denominator']))}.</caption><thead><tr><th>Data structure</th>"
        '<th class="n">MB</th><th class="n">Of the peak</th><th class="n">Of the structures</th></tr></thead>'
        f"<tbody>{rows}</tbody></table>"
    )


def _share(value: float | None) -> str:
    return "" if value is None else f"{value:.1%}"


def _layers(rows: Sequence[dict[str, Any]]) -> str:
    if not rows:
        return '<p class="note">No buffer of this record is of a layer.</p>'
    columns = [name for name in rows[0] if name != "layer"]
    total = sum(row["feature_maps_mb"] for row in rows)
    body = "".join(
        f'<tr><th scope="row">{escape(row["layer"] or "(of no layer)")}</th>'
        + "".join(f'<td class="n">{number(row[name])}</td>' for name in columns)
        + f"<td>{share_bar(row['feature_maps_mb'] / total if total else 0.0)}</td></tr>"
        for row in rows[:LAYERS]
    )
    head = "".join(f'<th class="n">{escape(_name(name.removesuffix("_mb")))}</th>' for name in columns)
    return (
        f"<table><caption>The {min(LAYERS, len(rows))} largest of {len(rows)}, MB, each structure at the moment of the "
        "step when there is most of it in all layers together. The bar is the layer's share of all feature maps."
        f"</caption><thead><tr><th>Layer</th>{head}<td></td></tr></thead><tbody>{body}</tbody></table>"
    )


def _largest(rows: Sequence[dict[str, Any]]) -> str:
    body = "".join(
        f'<tr><th scope="row">{escape(row["name"] or "(without a name)")}</th><td>{escape(row["layer"])}</td>'
        f'<td>{escape(_name(row["category"]))}</td><td class="n">{number(row["mb"])}</td></tr>'
        for row in rows
    )
    head = '<tr><th>Buffer</th><th>Layer</th><th>Data structure</th><th class="n">MB</th></tr>'
    return f"<table><thead>{head}</thead><tbody>{body}</tbody></table>"


def picture(title: str, report: dict[str, Any]) -> bytes:
    """The same as a PNG: the timeline above, the bar of the peak below it."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 6), dpi=110, layout="constrained")
    timeline, bar = figure.subplots(2, 1, height_ratios=(5, 1))
    rows, (begin, end) = report["timeline"], report["steps"]
    positions = [row["position"] for row in rows] + [end]
    levels = [[row[name] for row in rows] + [rows[-1][name]] for name in CATEGORIES]
    timeline.stackplot(positions, levels, labels=[_name(n) for n in CATEGORIES], colors=COLOURS, step="post")
    for name, (first, after) in report["phases"].items():
        timeline.axvline(first, color="gray", linestyle=":", linewidth=1)
        timeline.text((first + after) / 2, 1.01, name, ha="center", transform=timeline.get_xaxis_transform())
    timeline.set(xlim=(begin, end), ylabel="MB", xlabel="the step's events in order")
    timeline.set_title(f"Memory of one training step: {title}", pad=20)
    timeline.legend(loc="upper left", fontsize=8, ncols=2)
    left = 0.0
    for name, colour in zip(CATEGORIES, COLOURS, strict=True):
        size = report["peak"]["categories_mb"][name]
        bar.barh([0], [size], left=left, color=colour)
        left += size
    bar.set(yticks=[], xlabel="MB at the peak, by data structure")
    written = io.BytesIO()
    figure.savefig(written, format="png")
    return written.getvalue()
