import { readFileSync } from 'node:fs'
import { dirname, join, normalize } from 'node:path'

/** A test file that loads a source file. */
export interface ReachingTest {
  readonly test: string
  /** It reaches the source file by a program that it starts, of which its coverage says nothing. */
  readonly starts: boolean
}

const isTest = (file: string) => file.endsWith('.test.ts')
const isHeavy = (file: string) => file.startsWith('tests/heavy/')

/** Who names a file, by import or as the path of a program. */
interface Namers {
  readonly imports: Map<string, string[]>
  readonly paths: Map<string, string[]>
}

const add = (to: Map<string, string[]>, file: string, namer: string) => {
  const known = to.get(file)
  if (known === undefined) to.set(file, [namer])
  else known.push(namer)
}

function namersIn(sources: ReadonlyMap<string, string>): Namers {
  const namers: Namers = { imports: new Map(), paths: new Map() }
  const loaders = { ts: new Bun.Transpiler({ loader: 'ts' }), tsx: new Bun.Transpiler({ loader: 'tsx' }) }
  for (const [file, text] of sources) {
    const beside = (name: string) => normalize(join(dirname(file), name))
    // Imports of types alone are none when the program runs.
    const transpiler = loaders[file.endsWith('.tsx') ? 'tsx' : 'ts']
    const imported = new Set(transpiler.scanImports(text).map(({ path }) => beside(path)))
    for (const target of imported) if (sources.has(target)) add(namers.imports, target, file)
    for (const [, name = ''] of text.matchAll(/(?<!from )['"`]([\w./-]+\.(?:tsx?|mjs))['"`]/g)) {
      const target = [beside(name), normalize(name)].find((one) => sources.has(one))
      if (target !== undefined && !imported.has(target)) add(namers.paths, target, file)
    }
  }
  return namers
}

/** How many steps each file is away that names the source file, or names who does. */
function stepsFrom(source: string, namersOf: (file: string) => readonly string[]): ReadonlyMap<string, number> {
  const steps = new Map([[source, 0]])
  for (const [file, away] of steps) {
    for (const namer of namersOf(file)) if (!steps.has(namer)) steps.set(namer, away + 1)
  }
  return steps
}

/** Names, texts and cited clauses. */
const wordsOf = (text: string) => new Set(text.match(/§\d+|[A-Za-z][A-Za-z0-9_-]{3,}/g))

/** What a word is worth that two files have in common: the more test files have it, the less. */
function worthOf(tests: readonly ReadonlySet<string>[]): (word: string) => number {
  const counts = new Map<string, number>()
  for (const words of tests) for (const word of words) counts.set(word, (counts.get(word) ?? 0) + 1)
  return (word) => Math.log(tests.length / (counts.get(word) ?? tests.length))
}

/**
 * Which tests reach a source file: first those that import it, then the others, each time the ones first that have the most
 * words in common with it. Most tests ask a whole gateway, so their distance by imports says little.
 */
export class Reach {
  private readonly sources: ReadonlyMap<string, string>
  private readonly namers: Namers
  private readonly testWords: ReadonlyMap<string, ReadonlySet<string>>
  private readonly worth: (word: string) => number

  constructor(root: string) {
    const files = [...new Bun.Glob('{src,tests,scripts,bench}/**/*.{ts,tsx,mjs}').scanSync({ cwd: root })].sort()
    this.sources = new Map(files.map((file) => [file, readFileSync(join(root, file), 'utf8')]))
    this.namers = namersIn(this.sources)
    const tests = [...this.sources].filter(([file]) => isTest(file))
    this.testWords = new Map(tests.map(([file, text]) => [file, wordsOf(`${file} ${text}`)]))
    this.worth = worthOf([...this.testWords.values()])
  }

  testsOf(source: string): readonly ReachingTest[] {
    const { imports, paths } = this.namers
    const importing = stepsFrom(source, (file) => imports.get(file) ?? [])
    const naming = stepsFrom(source, (file) => [...(imports.get(file) ?? []), ...(paths.get(file) ?? [])])
    const started = new Map([...naming].filter(([file]) => !importing.has(file)))
    return [
      ...this.sorted(source, importing).map((test) => ({ test, starts: false })),
      ...this.sorted(source, started).map((test) => ({ test, starts: true })),
    ]
  }

  private sorted(source: string, steps: ReadonlyMap<string, number>): readonly string[] {
    const words = [...wordsOf(`${source} ${this.sources.get(source)}`)]
    return [...steps]
      .filter(([file]) => isTest(file) && !isHeavy(file))
      .map(([test, away]) => ({ test, imports: away === 1, common: this.common(words, test) }))
      .sort((a, b) => Number(b.imports) - Number(a.imports) || b.common - a.common || (a.test < b.test ? -1 : 1))
      .map(({ test }) => test)
  }

  private common(words: readonly string[], test: string): number {
    const known = this.testWords.get(test)
    const sum = words.reduce((so, word) => (known?.has(word) ? so + this.worth(word) : so), 0)
    return sum / Math.sqrt(known?.size ?? 1)
  }
}
