import { mkdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { startEmbedded } from '../../src/db/embedded/embedded.ts'
import { secondMs } from '../../src/time.ts'
import { makeTestFolder } from '../test-folder.ts'
import type { WantedLines } from './changed-lines.ts'
import { chooseMutants } from './choose.ts'
import { type Mutant, shownMutant } from './edit.ts'
import { Judges, type Verdict } from './judges.ts'
import { Reach } from './reach.ts'
import { dropLeftDatabases } from './test-run.ts'
import { TreeCopy } from './tree-copy.ts'

export interface MutationBounds {
  readonly mutantsMax: number
  readonly totalMsMax: number
  readonly mutantMsMax: number
  /** Of the test files that reach a source file, the nearest so many are asked. */
  readonly testsMax: number
  readonly seed: number
}

export const defaults: MutationBounds = {
  mutantsMax: 60,
  totalMsMax: 1_500 * secondMs,
  mutantMsMax: 120 * secondMs,
  testsMax: 24,
  seed: 1,
}

export interface MutationOptions extends MutationBounds {
  readonly root: string
  readonly lines: WantedLines
  readonly signal: AbortSignal
  /** Lines of progress, and lines of the result. */
  readonly note: (line: string) => void
  readonly say: (line: string) => void
}

interface Counts {
  killed: number
  survived: number
  unjudged: number
}

function described(mutant: Mutant, verdict: Verdict): string {
  const shown = shownMutant(mutant)
  if (verdict.kind === 'killed') return `killed ${shown} by ${verdict.test}${verdict.late ? ', which did not end' : ''}`
  if (verdict.kind === 'unjudged') return `not judged in time ${shown}`
  const { passed, looked, left } = verdict
  if (passed === 0) return `${shown} (none of the ${looked} nearest test files runs this line)`
  const files = passed === 1 ? '1 test file runs it and passes' : `${passed} test files run it and pass`
  return `${shown} (${files}${left === 0 ? '' : `, ${left} more were not asked`})`
}

/** Resolves with the number of mutants that no test noticed. */
export async function runMutants(options: MutationOptions): Promise<number> {
  const { note, say } = options
  const { mutants, refused, left } = await chooseMutants(options)
  note(`${mutants.length} mutants, ${refused} edits that do not compile, ${left} more edits`)
  const counts = mutants.length === 0 ? { killed: 0, survived: 0, unjudged: 0 } : await judgeAll(options, mutants)
  const { killed, survived, unjudged } = counts
  const others = `${unjudged} not judged in time, ${refused} edits refused by the compiler, ${left} edits left out`
  say(`${killed} killed, ${survived} survived, ${others}`)
  return survived
}

async function judgeAll(options: MutationOptions, mutants: readonly Mutant[]): Promise<Counts> {
  const { root, signal, note } = options
  const folder = makeTestFolder()
  const [checkout, scratch] = [join(folder, 'c'), join(folder, 't')]
  for (const one of [checkout, scratch]) mkdirSync(one)
  const server = await startEmbedded({
    dataDir: join(folder, 's'),
    log: { info: () => {}, warn: () => {} },
    connectionsMax: 200,
    durable: false,
    preferNobody: true,
  })
  try {
    const copy = new TreeCopy(root, checkout)
    const judges = new Judges({ folder: checkout, scratch, databaseUrl: server.url, signal }, copy, note)
    return await judgeEach(options, mutants, judges, server.url)
  } finally {
    await server.stop()
    rmSync(folder, { recursive: true, force: true })
  }
}

async function judgeEach(
  { root, testsMax, totalMsMax, mutantMsMax, signal, note, say }: MutationOptions,
  mutants: readonly Mutant[],
  judges: Judges,
  databaseUrl: string,
): Promise<Counts> {
  const counts: Counts = { killed: 0, survived: 0, unjudged: 0 }
  const reach = new Reach(root)
  const endMs = performance.now() + totalMsMax
  for (const [at, mutant] of mutants.entries()) {
    if (performance.now() > endMs || signal.aborted) {
      counts.unjudged += mutants.length - at
      break
    }
    const untilMs = Math.min(endMs, performance.now() + mutantMsMax)
    const verdict = await judges.judge(mutant, reach.testsOf(mutant.file).slice(0, testsMax), untilMs)
    await dropLeftDatabases(databaseUrl)
    counts[verdict.kind]++
    const line = described(mutant, verdict)
    if (verdict.kind === 'survived') say(line)
    note(`${at + 1}/${mutants.length} ${verdict.kind === 'survived' ? 'survived ' : ''}${line}`)
  }
  return counts
}
