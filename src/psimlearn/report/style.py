"""The style sheet of a page: light or dark as the reader's system is set, for phones, desktops and paper."""

__all__ = ["STYLE"]

STYLE = """
:root { color-scheme: light dark; --ink: #1c2024; --faint: #868e96; --paper: #ffffff; --edge: #dee2e6;
  --card: #f8f9fa; --ours: #2f7de1; --font: system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e9ecef; --faint: #8b949e; --paper: #14171a; --edge: #343a40; --card: #1e2226 } }
@media print { :root { color-scheme: light; --ink: #000; --faint: #666; --paper: #fff; --edge: #ccc; --card: #fff }
  figure, tr, .facts { break-inside: avoid-page } h2 { break-after: avoid-page } }
* { box-sizing: border-box }
body { margin: 0 auto; padding: 1rem; max-width: 46rem; background: var(--paper); color: var(--ink);
  font: 1rem/1.55 var(--font); overflow-wrap: break-word }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 1rem 0 .25rem }
h2 { font-size: 1.2rem; margin: 2.25rem 0 .5rem; padding-top: 1rem; border-top: 1px solid var(--edge) }
dt { font-weight: 600; margin-top: .4rem } dd { margin: 0 0 0 1rem; color: var(--faint) }
p, ul { margin: .5rem 0 } .faint { color: var(--faint) } .lead { font-size: 1.05rem }
figure { margin: .75rem 0; max-width: 33rem } figure svg { display: block; width: 100%; height: auto }
figcaption { color: var(--faint); font-size: .9rem; margin-top: .25rem }
.wide { overflow-x: auto; margin: .75rem 0 }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .92rem }
th, td { padding: .25rem 0 .25rem .9rem; text-align: right; vertical-align: bottom;
  border-bottom: 1px solid var(--edge) } td { white-space: nowrap }
td:last-child { white-space: normal }
th:first-child, td:first-child { text-align: left; padding-left: 0; white-space: normal }
th { font-weight: 600; color: var(--faint) }
td.best { font-weight: 700; color: var(--ours) }
.facts { display: grid; grid-template-columns: repeat(auto-fill, minmax(8.5rem, 1fr)); gap: .5rem; padding: 0 }
.facts div { background: var(--card); border: 1px solid var(--edge); border-radius: .4rem; padding: .4rem .6rem }
.facts b { display: block; font-size: 1.15rem } .facts span { color: var(--faint); font-size: .85rem }
@media (max-width: 30rem) { table { font-size: .82rem } th, td { padding-left: .4rem }
  th { font-size: .72rem } }
"""
