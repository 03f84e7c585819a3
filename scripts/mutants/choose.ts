import type { WantedLines } from './changed-lines.ts'
import { Compiler } from './compiler.ts'
import { type Edit, type Mutant, mutated } from './edit.ts'
import { editsOf } from './edit-maker.ts'

/** Numbers of 0 to 1 that are the same for the same seed (mulberry32). */
function randomOf(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}

function shuffled<T>(values: readonly T[], seed: number): readonly T[] {
  const [out, random] = [[...values], randomOf(seed)]
  for (let at = out.length - 1; at > 0; at--) {
    const other = Math.floor(random() * (at + 1))
    ;[out[at], out[other]] = [out[other] as T, out[at] as T]
  }
  return out
}

async function firstAccepted(compiler: Compiler, edit: Edit, source: string): Promise<Mutant | null> {
  for (const text of edit.texts) {
    if (await compiler.accepts(edit.file, mutated(source, edit, text))) return { ...edit, text }
  }
  return null
}

export interface Chosen {
  readonly mutants: readonly Mutant[]
  /** Edits that no text made compile. */
  readonly refused: number
  /** Edits that were not looked at, because there were mutants enough. */
  readonly left: number
}

export interface Wanted {
  readonly root: string
  readonly lines: WantedLines
  readonly mutantsMax: number
  readonly seed: number
  /** Ends the search. */
  readonly signal: AbortSignal
}

/** At most so many mutants of these lines, in an order that the seed decides. */
export async function chooseMutants({ root, lines, mutantsMax, seed, signal }: Wanted): Promise<Chosen> {
  const compiler = await Compiler.open(root, [...lines.keys()])
  try {
    const edits: Edit[] = []
    const sources = new Map<string, string>()
    for (const [file, wanted] of [...lines].sort(([a], [b]) => (a < b ? -1 : 1))) {
      const source = await compiler.source(file)
      sources.set(file, source.text)
      edits.push(...editsOf(source, file, (line) => wanted.has(line)))
    }
    const mutants: Mutant[] = []
    let refused = 0
    for (const edit of shuffled(edits, seed)) {
      if (mutants.length >= mutantsMax || signal.aborted) break
      const mutant = await firstAccepted(compiler, edit, sources.get(edit.file) ?? '')
      if (mutant === null) refused++
      else mutants.push(mutant)
    }
    return { mutants, refused, left: edits.length - refused - mutants.length }
  } finally {
    await compiler.close()
  }
}
