import { existsSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { waitUntil } from './wait-until.ts'

/** The variable with the path, without its number, that counts are written to. */
export const heapCountsFile = 'HEAP_COUNTS_FILE'

/** Objects of a heap by the names that JavaScriptCore gives their types. */
export type HeapCounts = Readonly<Record<string, number>>

/** Of the program that is counted. `folder`: for what it writes. */
export const countedEnvironment = (folder: string): Readonly<Record<string, string>> => ({
  BUN_OPTIONS: `--preload=${resolve(import.meta.dir, 'heap-counts.ts')}`,
  BUN_JSC_useGC: '0',
  [heapCountsFile]: join(folder, 'counts'),
})

/** The counts of one program, one after the other. */
export class HeapCounter {
  private taken = 0

  constructor(
    private readonly pid: number,
    private readonly folder: string,
  ) {}

  async take(): Promise<HeapCounts> {
    const file = join(this.folder, `counts.${this.taken++}`)
    process.kill(this.pid, 'SIGUSR2')
    await waitUntil(`the count ${file}`, () => existsSync(file))
    return JSON.parse(readFileSync(file, 'utf8')) as HeapCounts
  }
}

/** What was made from one count to the next, for each of `times`. */
export function madeEach(before: HeapCounts, after: HeapCounts, times: number): HeapCounts {
  const types = Object.keys(after)
  return Object.fromEntries(types.map((type) => [type, ((after[type] ?? 0) - (before[type] ?? 0)) / times]))
}
