"""The style of a report's page: light and dark by the reader's preference, narrow and wide."""

from __future__ import annotations

from typing import Final

STYLE: Final = """
:root{--paper:#fff;--ink:#1b1f24;--soft:#57606a;--line:#d8dee4;--band:#eef1f4;
--read:#2f6fb3;--written:#dd9b2f;--fresh:#b5332e;--bad:#b5332e}
@media (prefers-color-scheme:dark){:root{--paper:#14171b;--ink:#e6e9ed;--soft:#9aa4af;--line:#333a42;
--band:#1f242a;--read:#6aa9e9;--written:#f0bb62;--fresh:#ef7a73;--bad:#ff8a82}}
*{box-sizing:border-box}
body{margin:0;background:var(--paper);color:var(--ink);font:15px/1.45 system-ui,sans-serif}
main{max-width:1120px;margin:0 auto;padding:20px 16px 32px}
h1{font-size:22px;margin:0}
h2{font-size:16px;margin:28px 0 8px}
.sub,footer{color:var(--soft);margin:4px 0 0;overflow-wrap:anywhere}
footer{margin-top:32px;border-top:1px solid var(--line);padding-top:10px;font-size:13px}
.tiles{display:grid;grid-template-columns:repeat(4,1fr);gap:10px;margin:18px 0 0}
.tiles div{border:1px solid var(--line);border-radius:6px;padding:10px 12px;display:flex;
flex-direction:column-reverse;justify-content:flex-end}
.tiles dd{margin:0;font-size:22px;font-weight:600;font-variant-numeric:tabular-nums}
.tiles dt{color:var(--soft);font-size:13px}
.legend{margin:0 0 6px;color:var(--soft);font-size:13px;display:flex;flex-wrap:wrap;gap:4px 16px}
.legend i{display:inline-block;width:11px;height:11px;margin-right:6px;border-radius:2px}
i.read{background:var(--read)}
i.written{background:var(--written)}
i.fresh{background:var(--fresh)}
.chart{display:block;overflow:visible}
path.read{fill:var(--read)}
path.written{fill:var(--written)}
path.fresh{fill:var(--fresh)}
.band{fill:var(--band)}
.start,path.bad{fill:none;stroke:var(--soft);stroke-width:1;stroke-dasharray:3 3;
vector-effect:non-scaling-stroke}
path.bad{stroke:var(--bad)}
.tip{fill:transparent}
.tip:hover{fill:var(--ink);fill-opacity:.12}
.grid{stroke:var(--line);stroke-width:1}
.axis{fill:var(--soft);font-size:12px;paint-order:stroke;stroke:var(--paper);stroke-width:3px}
.end{text-anchor:end}
.number{fill:var(--ink);font-size:12px;font-weight:600}
text.bad{fill:var(--bad)}
.scroll{overflow-x:auto}
table{border-collapse:collapse;min-width:min(100%,560px);font-size:14px}
th,td{text-align:left;padding:5px 14px 5px 0;border-bottom:1px solid var(--line);vertical-align:top}
th{color:var(--soft);font-weight:500;white-space:nowrap}
.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
@media (max-width:640px){.tiles{grid-template-columns:1fr 1fr}.tiles dd{font-size:19px}
main{padding:14px 12px 24px}table{font-size:13px}th,td{padding-right:8px}
.wide,.stack th.under{display:none}
.stack tr{display:grid;grid-template-columns:1.9em 1fr 5.6em 4.2em;border-bottom:1px solid var(--line)}
.stack th,.stack td{border:0}.stack td.under{grid-column:2/-1;order:2;padding-top:0}
.stack td.under:empty{display:none}}
"""
