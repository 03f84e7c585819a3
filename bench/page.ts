import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { columns } from './columns.ts'
import { notebookFile } from './results.ts'
import { type Goal, goals } from './table.ts'

/** The page of results and its drawing: everything on them stands in the notebook, which alone is measured into. */
export const pageFile = join(import.meta.dir, 'RESULTS.md')
export const drawingFile = join(import.meta.dir, 'results.svg')
export const pageLinesMax = 80

interface Table {
  readonly columns: readonly string[]
  readonly rows: ReadonlyMap<string, readonly string[]>
}

/** The text between the comments of a section. */
function sectionOf(text: string, name: string): string {
  const [from, to] = [text.indexOf(`<!-- ${name} -->`), text.indexOf(`<!-- end of ${name} -->`)]
  if (from === -1 || to === -1) throw new Error(`the notebook has no section ${name}`)
  return text.slice(from, to)
}

const cellsOf = (line: string) =>
  line
    .split('|')
    .slice(1, -1)
    .map((cell) => cell.trim())

/** The table below `### name: …`. */
function tableOf(section: string, name: string): Table {
  const from = section.indexOf(`### ${name}: `)
  if (from === -1) throw new Error(`the notebook has no table ${name}`)
  const lines = section.slice(from).split('\n')
  const first = lines.findIndex((line) => line.startsWith('|'))
  const after = lines.findIndex((line, at) => at > first && !line.startsWith('|'))
  const [head = '', , ...rows] = lines.slice(first, after === -1 ? undefined : after)
  const split = rows.map(cellsOf)
  return { columns: cellsOf(head), rows: new Map(split.map(([row = '', ...cells]) => [row, ['', ...cells]])) }
}

const value = ({ columns, rows }: Table, row: string, column: string) => rows.get(row)?.[columns.indexOf(column)] ?? ''

/** Under the heading and the comment, before the first table. */
const circumstances = (section: string) => section.split('\n').find((line) => /^\d{4}-\d\d-\d\d /.test(line)) ?? ''
const day = (section: string) => circumstances(section).slice(0, 'YYYY-MM-DD'.length)

function goalRow(section: string, goal: Goal): string {
  const table = tableOf(section, goal.in)
  const { head } = columns[goal.column]
  const [ours, raw] = [value(table, 'Penstock', head), value(table, 'raw Bun', head)]
  const met = cellsOf(section.split('\n').find((line) => cellsOf(line)[0] === goal.what) ?? '')
  return `| ${goal.what} | ${head} | ${raw} | ${ours} | ${met[3]} | ${met[2]} | ${met[4]} |`
}

const measured = 'json64'
const column = 'requests/s'
const ink = { text: '#57606a', ours: '#0b5cad', other: '#9aa4b1' } as const
const bar = { height: 22, gap: 8, left: 110, widthMax: 420, textAt: 15 } as const

/** Bars of all gateways for one load, longest first. */
function drawing(section: string): string {
  const table = tableOf(section, measured)
  const bars = [...table.rows.keys()]
    .map((name) => ({ name, perSecond: Number(value(table, name, column)) }))
    .sort((a, b) => b.perSecond - a.perSecond)
  const most = bars[0]?.perSecond ?? 1
  const rows = bars.map(({ name, perSecond }, at) => {
    const y = at * (bar.height + bar.gap)
    const width = Math.max(1, Math.round((bar.widthMax * perSecond) / most))
    return `<text x="${bar.left - 8}" y="${y + bar.textAt}" text-anchor="end">${name}</text>
<rect x="${bar.left}" y="${y}" width="${width}" height="${bar.height}" fill="${name === 'Penstock' ? ink.ours : ink.other}"/>
<text x="${bar.left + width + 6}" y="${y + bar.textAt}">${perSecond}</text>`
  })
  const [wide, high] = [bar.left + bar.widthMax + 80, bars.length * (bar.height + bar.gap)]
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${wide} ${high}" width="${wide}" height="${high}" role="img" aria-label="Requests a second at 64 connections" font-family="system-ui, sans-serif" font-size="13" fill="${ink.text}">
${rows.join('\n')}
</svg>
`
}

/** Both, from the notebook's text. */
export function resultsOf(notebook: string): { readonly page: string; readonly drawing: string } {
  const [gateway, peers] = [sectionOf(notebook, 'gateway'), sectionOf(notebook, 'peers')]
  const page = `# Results

What a request costs when it goes through Penstock. A node and a client that cost next to nothing stand on one CPU, the gateway alone on the
other, with everything on: keys, policies, routing, receipts, request records, a log line and the database, which shares its CPU. _Raw Bun_ is a
pass-through of 30 lines that does nothing else, measured in turn with it. Ratios are taken within each round; compare them,
and not microseconds of different machines.

${circumstances(gateway)}

| What | in | raw Bun | Penstock | Penstock ÷ raw Bun | goal | met |
| --- | --- | ---: | ---: | ---: | ---: | ---: |
${goals
  .filter((goal) => gateway.includes(`### ${goal.in}: `))
  .map((goal) => goalRow(gateway, goal))
  .join('\n')}

Requests a second at 64 connections, each gateway with one worker on the same CPU in one run (${day(peers)}). The others keep no receipts, no
records and no database:

![Requests a second at 64 connections, by gateway](results.svg)

Measure it on your computer:

    npm run bench -- --pin

[The notebook](notebook/measurements.md) has all tables with their dates and machines: peers, two processes, several gateways, prefix
affinity, memory, drains, paid chat, the ledger, mixtures, tunnels, dialects, and what was tried and did not help. [README.md](README.md)
says how each is measured.
`
  return { page, drawing: drawing(peers) }
}

export function writePage(): void {
  const { page, drawing: svg } = resultsOf(readFileSync(notebookFile, 'utf8'))
  writeFileSync(pageFile, page)
  writeFileSync(drawingFile, svg)
}

if (import.meta.main) writePage()
