import type { Edit } from './edit.ts'

/** By file and line, how often a test file ran it. A line without code has no count. */
export type Coverage = ReadonlyMap<string, ReadonlyMap<number, number>>

/** `SF:file` begins the lines of a file, each of which is `DA:line,count`. */
export function readLcov(text: string): Coverage {
  const files = new Map<string, Map<number, number>>()
  let counts = new Map<number, number>()
  for (const line of text.split('\n')) {
    if (line.startsWith('SF:')) {
      counts = new Map()
      files.set(line.slice('SF:'.length), counts)
    }
    const [, at, count] = /^DA:(\d+),(\d+)/.exec(line) ?? []
    if (at !== undefined) counts.set(Number(at), Number(count))
  }
  return files
}

/** Whether any line of the edit was run, or else the line with code before it: the middle of an expression has no count. */
export function runsEdit(coverage: Coverage, { file, line, lastLine }: Edit): boolean {
  const counts = [...(coverage.get(file) ?? [])]
  const within = counts.filter(([at]) => at >= line && at <= lastLine)
  if (within.length > 0) return within.some(([, count]) => count > 0)
  const [, before = 0] = counts.filter(([at]) => at < line).toSorted(([a], [b]) => b - a)[0] ?? []
  return before > 0
}
