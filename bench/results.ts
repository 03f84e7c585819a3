import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { cpus, loadavg, release } from 'node:os'
import { join } from 'node:path'

export const notebookFile = join(import.meta.dir, 'notebook', 'measurements.md')
const opening =
  '# Measurements\n\nWritten by `npm run bench -- --write` and `npm run bench -- NAME --write`; see [README.md](../README.md).\n'

/** Where and when a table was measured. */
export function circumstances(more: string): string {
  const [cpu] = cpus()
  const when = new Date().toISOString().slice(0, 16).replace('T', ' ')
  const load = loadavg()[0]?.toFixed(2)
  return `${when} UTC · ${cpus().length} × ${cpu?.model.trim()} · ${process.platform} ${release()} · Bun ${Bun.version} · load average at the end ${load} · ${more}`
}

/** The text with one section put in the place of its last version; the sections stand between comments with its name. */
export function withSection(text: string, name: string, section: string): string {
  const [first, last] = [`<!-- ${name} -->`, `<!-- end of ${name} -->`]
  const whole = `${first}\n${section.trim()}\n${last}`
  const [from, to] = [text.indexOf(first), text.indexOf(last)]
  if (from === -1 || to === -1) return `${text.trimEnd()}\n\n${whole}\n`
  return text.slice(0, from) + whole + text.slice(to + last.length)
}

export function writeSection(name: string, section: string): void {
  const before = existsSync(notebookFile) ? readFileSync(notebookFile, 'utf8') : opening
  writeFileSync(notebookFile, withSection(before, name, section))
}
