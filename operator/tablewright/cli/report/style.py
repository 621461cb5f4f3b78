"""The page's look: the reader's own light or dark, a phone's width as well as a desk's, and paper."""

STYLE = """
:root { color-scheme: light dark; --paper: #fbfaf7; --card: #ffffff; --ink: #20242a; --quiet: #667080;
  --rule: #dcdfe4; --bar: #3f7d5c; --small: #c9742e; --good: #2c7a4b; --bad: #b3372f; --wait: #8a6d1b; }
@media screen and (prefers-color-scheme: dark) { :root { --paper: #15181c; --card: #1d2126; --ink: #e6e8eb;
  --quiet: #98a2b0; --rule: #343a42; --bar: #6fbf92; --small: #e39a5a; --good: #6fd19a; --bad: #ff8f85;
  --wait: #e2c15c; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 68rem; padding: 1.5rem 1rem 4rem; background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.7rem; margin: 0 0 .2rem; } h2 { font-size: 1.3rem; margin: 0 0 .6rem; overflow-wrap: anywhere; }
h3 { font-size: 1rem; margin: 1.4rem 0 .4rem; }
.quiet { color: var(--quiet); } p { margin: .2rem 0; overflow-wrap: anywhere; }
.cards { display: grid; gap: .8rem; grid-template-columns: repeat(auto-fit, minmax(7.6rem, 1fr)); margin: 1.2rem 0; }
.card, section { background: var(--card); border: 1px solid var(--rule); border-radius: .6rem; padding: .8rem 1rem; }
.card b { display: block; font-size: 1.2rem; white-space: nowrap; font-variant-numeric: tabular-nums; }
section { margin: 1.2rem 0; padding: 1.2rem; }
.pair { display: grid; gap: 1.2rem; grid-template-columns: repeat(auto-fit, minmax(min(20rem, 100%), 1fr)); }
.scroll { overflow-x: auto; } .narrow { max-width: 34rem; }
table { border-collapse: collapse; width: 100%; font-size: .92rem; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .25rem .7rem .25rem 0; border-bottom: 1px solid var(--rule); vertical-align: top; }
th { font-weight: 600; color: var(--quiet); white-space: nowrap; }
td.n, th.n { text-align: right; white-space: nowrap; } td.w { white-space: nowrap; }
.chip { display: inline-block; border: 1px solid currentColor; border-radius: 1rem; padding: 0 .6rem;
  margin: 0 .3rem .3rem 0; font-size: .85rem; white-space: nowrap; }
.good { color: var(--good); } .bad { color: var(--bad); } .wait { color: var(--wait); }
svg.chart { width: 100%; height: auto; max-width: 27rem; display: block; }
svg .label { fill: var(--quiet); font: 13px system-ui, sans-serif; } svg .bar { fill: var(--bar); }
svg .bar.small { fill: var(--small); } svg .line { fill: none; stroke: var(--bar); stroke-width: 2; }
a { color: inherit; }
@media screen and (max-width: 40rem) { td { overflow-wrap: anywhere; } td.n { overflow-wrap: normal; }
  .stacks thead { display: none; } .stacks tr { display: block;
    border-bottom: 1px solid var(--rule); padding: .3rem 0; }
  .stacks td, .stacks td.n { display: flex; justify-content: space-between; gap: 1rem; border: 0; padding: .05rem 0;
    text-align: right; white-space: normal; } .stacks td div { min-width: 0; overflow-wrap: anywhere; }
  .stacks td:first-child { font-weight: 600; } .stacks td:empty { display: none; }
  .stacks td::before { content: attr(data-title); color: var(--quiet); font-weight: 400; white-space: nowrap; } }
h2, h3 { break-after: avoid; } tr, svg, .card { break-inside: avoid; }
@media print { body { max-width: none; padding: 0; font-size: 10pt; background: #fff; color: #000; }
  section { border: 0; padding: 0; } table { font-size: .8rem; } .scroll { overflow: visible; } }
"""
