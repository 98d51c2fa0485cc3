"""The page's style sheet: one column, two modes, no fonts from elsewhere."""

from __future__ import annotations

from collections.abc import Sequence

from mlcl.report.palette import Look

CSS = """
:root {
  color-scheme: light dark;
  --paper: #fdfdfc; --ink: #1a1d21; --soft: #5b646e; --faint: #6e7781; --line: #e3e4df; --wash: #f3f4f0;
  --heat: 33 82 158; --on-heat: #fff;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #13161a; --ink: #e8eaed; --soft: #a2abb5; --faint: #77818c; --line: #2b3138; --wash: #1b1f24;
    --heat: 110 172 255; --on-heat: #0a1424;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0 auto; padding: 3.5rem 1.5rem 6rem; max-width: 68rem; background: var(--paper); color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif;
  font-variant-numeric: tabular-nums; -webkit-text-size-adjust: 100%;
}
header > p, section > p { max-width: 46rem; color: var(--soft); }
.kicker { margin: 0; font-size: .8125rem; letter-spacing: .04em; color: var(--faint); }
h1 {
  margin: .4rem 0 1.2rem; max-width: 60rem; font: 400 clamp(1.5rem, 1rem + 2.2vw, 2.25rem)/1.25 Charter,
  "Bitstream Charter", "Iowan Old Style", Cambria, Georgia, "Liberation Serif", serif;
  letter-spacing: -.01em; text-wrap: pretty; font-variant-numeric: lining-nums;
}
h2 { margin: 4rem 0 .3rem; font-size: 1.3rem; line-height: 1.3; letter-spacing: -.01em; }
h3 { margin: 2rem 0 .5rem; font-size: 1rem; }
h3 small { display: block; font-weight: 400; font-size: .8125rem; color: var(--soft); }
section > p { margin: 0 0 1.4rem; }
.missing { border-left: 3px solid currentColor; padding-left: .8rem; }
a { color: inherit; text-underline-offset: .2em; }
figure { margin: 0; min-width: 0; }
figcaption { font-size: .875rem; color: var(--soft); text-align: left; margin: 0 0 .4rem; }
summary { margin-top: 1.2rem; cursor: pointer; font-size: .875rem; color: var(--soft); }
summary:hover { color: var(--ink); }
:focus-visible { outline: 2px solid rgb(var(--heat)); outline-offset: 2px; }
pre {
  overflow-x: auto; padding: .8rem 1rem; background: var(--wash); border-radius: 6px;
  font: .8125rem/1.5 ui-monospace, "SF Mono", Menlo, Consolas, "Liberation Mono", monospace;
}
dl { display: grid; grid-template-columns: minmax(8rem, 14rem) 1fr; gap: .45rem 1.5rem; font-size: .875rem; }
dt { font-weight: 600; }
dd { margin: 0; max-width: 42rem; color: var(--soft); overflow-wrap: anywhere; }
.tasks {
  display: grid; grid-template-columns: repeat(auto-fill, minmax(15rem, 1fr)); gap: .35rem 2.5rem;
  margin: .6rem 0 0; padding-left: 1.6rem; font-size: .875rem; color: var(--faint);
}
.tasks li { padding-left: .2rem; }
.tasks b { font-weight: 400; color: var(--ink); overflow-wrap: anywhere; }
.tasks span { color: var(--faint); white-space: nowrap; }

.chart, .matrix { display: block; width: 100%; height: auto; overflow: visible; }
.chart text, .matrix text { font-size: 12px; fill: var(--soft); }
.chart .faint { fill: var(--faint); font-size: 11px; }
.chart .end { fill: currentColor; font-size: 13px; font-weight: 600; }
.chart .value { font-weight: 400; }
.grid { stroke: var(--line); fill: none; }
.line { fill: none; stroke: currentColor; stroke-width: 1.8; stroke-linejoin: round; stroke-linecap: round; }
.lead { fill: none; stroke: currentColor; opacity: .45; stroke-dasharray: 1 3; }
.chart g g, .mark { fill: currentColor; stroke: var(--paper); stroke-width: 1; }
.bound .line { stroke-width: 1.4; }
.chart .bound g, .mark.bound { fill: var(--paper); stroke: currentColor; stroke-width: 1.6; }
.plain { color: var(--faint); }
.spark { max-width: 300px; }
.chart.spark .line { stroke-width: 1.3; }
.spark text { font-size: 11px; }
.narrow { display: none; }
.many {
  display: grid; grid-template-columns: repeat(auto-fit, minmax(min(26rem, 100%), 1fr)); gap: 2rem 2.5rem;
}
.small {
  display: grid; grid-template-columns: repeat(auto-fill, minmax(min(17rem, 100%), 1fr)); gap: 2rem 2.5rem;
}
.one { display: grid; gap: 2rem; }
.runs { display: grid; grid-template-columns: repeat(4, 1fr); gap: .8rem 1.6rem; }
.runs > div { grid-column: span var(--n); }
.sparks { display: grid; grid-template-columns: repeat(var(--n), 1fr); gap: .8rem 1.6rem; }
.runs h3 { margin-top: 1rem; }
.matrix { max-width: 520px; }
.matrix image { image-rendering: pixelated; }
.matrix .ink { fill: rgb(var(--heat)); }
.matrix .frame { fill: none; stroke: var(--faint); stroke-width: .75; }
.edge { stroke: var(--ink); stroke-width: .8; fill: none; opacity: .55; }
.scale i, .heat td { background: rgb(var(--heat) / var(--v)); }
.scale i { display: inline-block; width: 1.4em; height: 1em; margin: 0 .4em 0 1em; vertical-align: -.12em; }

.scroll { overflow-x: auto; max-width: 100%; }
table { border-collapse: collapse; font-size: .875rem; }
th { font-weight: 600; }
.numbers { margin-top: .8rem; min-width: 100%; }
.numbers td, .numbers thead th { padding: .32rem .55rem; text-align: right; white-space: nowrap; }
.numbers thead th { color: var(--soft); font-weight: 500; vertical-align: bottom; }
.numbers thead th[scope=colgroup] {
  text-align: center; border: solid var(--line); border-width: 0 0 1px; padding-bottom: .15rem;
}
.numbers th[scope=colgroup] + th[scope=colgroup] { border-left: 1.2rem solid var(--paper); }
.numbers th[scope=row], .numbers thead tr:last-child th:first-child {
  position: sticky; left: 0; padding: .32rem .8rem .32rem 0; background: var(--paper); text-align: left;
  font-weight: 500; white-space: nowrap; max-width: 12rem; overflow: hidden; text-overflow: ellipsis;
}
.numbers tbody tr { border-top: 1px solid var(--line); }
.name { white-space: nowrap; }
.name small { font-weight: 400; color: var(--faint); }
figcaption .name { color: var(--ink); font-weight: 600; }
.mark { width: .8em; height: .8em; margin-right: .45em; vertical-align: -.04em; overflow: visible; }
.heat { border-spacing: 2px; border-collapse: separate; font-size: .8125rem; }
.heat td { min-width: 2.55rem; height: 1.75rem; padding: 0 .3rem; text-align: center; border-radius: 2px; }
.heat td:empty { background: none; }
.heat .strong { color: var(--on-heat); }
.heat th { padding: 0 .4rem; font-weight: 400; color: var(--faint); text-align: center; }
.key { display: flex; flex-wrap: wrap; gap: .2rem 1.3rem; font-size: .875rem; margin: 1rem 0 .6rem; }

.dots { width: 100%; table-layout: fixed; }
.dots caption { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
.dots th { text-align: left; font-weight: 500; }
.dots thead th { color: var(--soft); vertical-align: bottom; padding: 0 3rem .3rem 0; }
.dots thead th:first-child { width: 11rem; }
.dots tbody th[scope=row] {
  padding: 0 .8rem 0 0; font-weight: 400; overflow: hidden; text-overflow: ellipsis; white-space: nowrap;
}
.dots td { padding: 0 3rem 0 0; }
.dots .task th { padding: .9rem 0 .15rem; font-size: .75rem; color: var(--faint); letter-spacing: .03em; }
.ruler { position: relative; height: 1.2em; font-weight: 400; font-size: .75rem; color: var(--faint); }
.ruler span { position: absolute; transform: translateX(-50%); }
.strip { position: relative; height: 1.45rem; }
.strip > * { position: absolute; top: 50%; }
.strip u { top: 0; bottom: 0; width: 1px; background: var(--line); }
.strip u.zero { background: var(--faint); }
.strip s { height: 1px; background: var(--faint); opacity: .6; }
.strip i { width: 9px; height: 9px; margin: -4.5px 0 0 -4.5px; background: currentColor; }
.strip i:hover { z-index: 1; scale: 1.4; }
.strip .circle { border-radius: 50%; }
.strip .diamond { rotate: 45deg; }
.strip .triangle { clip-path: polygon(50% 0, 100% 100%, 0 100%); width: 10px; }
.strip .triangle.bound { clip-path: none; }
.strip .bound { background: var(--paper); border: 1.6px solid currentColor; }

@media (max-width: 60rem) {
  .runs > div { grid-column: 1 / -1; }
  .sparks { grid-template-columns: repeat(auto-fill, minmax(9.5rem, 1fr)); }
}
@media (max-width: 40rem) {
  body { padding: 1.8rem 1rem 4rem; }
  h2 { margin-top: 3rem; }
  .wide { display: none; }
  .narrow { display: block; }
  dl { grid-template-columns: 1fr; gap: .1rem; }
  dd { margin-bottom: .6rem; }
  .dots thead th:first-child { width: 6rem; }
  .dots td, .dots thead th { padding-right: 2rem; }
  .ruler .minor { display: none; }
  .heat { border-spacing: 1px; }
  .heat td { min-width: 1.9rem; height: 1.6rem; padding: 0 .1rem; font-size: .6875rem; }
  .dots tbody th[scope=row] { padding-right: .5rem; }
}
@media print {
  * { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
  html { font-size: 11px; }
  body { padding: 0; max-width: none; font-size: 1rem; }
  figure, tr { break-inside: avoid; }
  h2, h3 { break-after: avoid; }
  .scroll { overflow: visible; }
}
"""


def style_sheet(looks: Sequence[Look], hero: Look | None) -> str:
    """CSS and the methods' colours, as classes that set the current colour; the hero stands out a little."""
    light = "\n".join(f".{look.css} {{ color: {look.light}; }}" for look in looks)
    dark = "\n".join(f".{look.css} {{ color: {look.dark}; }}" for look in looks)
    if hero:
        light += f"\n.{hero.css} .line {{ stroke-width: 2.8; }}\n"
        light += f".strip .{hero.css} {{ width: 11px; height: 11px; margin: -5.5px 0 0 -5.5px; z-index: 1; }}"
    return f"{CSS}{light}\n@media (prefers-color-scheme: dark) {{\n{dark}\n}}\n"
