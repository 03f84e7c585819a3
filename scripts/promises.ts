import { createHash } from 'node:crypto'

/**
 * The promises of a document: each row of a table, item of a list and paragraph, with the heading that it stands below. Headings,
 * code and the heads of tables promise nothing by themselves.
 */
export interface DocumentPromise {
  readonly document: string
  /** The heading above it, as the address of the page has it. */
  readonly anchor: string
  /** Of its words, so that a promise whose words change has to be looked at again. */
  readonly hash: string
  readonly words: string
}

const hashChars = 10

/** As GitHub makes them of headings. */
export const anchorOf = (heading: string): string =>
  heading
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N} _-]/gu, '')
    .replaceAll(' ', '-')

const hashOf = (words: string): string => createHash('sha256').update(words).digest('hex').slice(0, hashChars)

const startsItem = (line: string): boolean => /^ *(?:[-*]|\d+\.) /.test(line)
const isRow = (line: string): boolean => line.startsWith('|')
const isRule = (line: string): boolean => /^\|[\s|:-]+\|$/.test(line)

/** The lines of a document without its blocks of code, which examples and their own tests hold. */
function proseOf(text: string): readonly string[] {
  let fenced = false
  return text.split('\n').map((line) => {
    const fence = line.trimStart().startsWith('```')
    if (fence) fenced = !fenced
    return fence || fenced ? '' : line
  })
}

/** Lines that belong together: one row, one item with what is indented below it, one paragraph. */
function* blocksOf(lines: readonly string[]): Generator<readonly string[]> {
  let block: string[] = []
  for (const [at, line] of lines.entries()) {
    const alone = line === '' || line.startsWith('#') || line.startsWith('![') || isRow(line)
    if ((alone || startsItem(line)) && block.length > 0) {
      yield block
      block = []
    }
    if (line.startsWith('#') || (isRow(line) && !isRule(line) && !isRule(lines[at + 1] ?? ''))) yield [line]
    if (!alone) block.push(line)
  }
  if (block.length > 0) yield block
}

export function promisesOf(document: string, text: string): readonly DocumentPromise[] {
  let anchor = ''
  const promises: DocumentPromise[] = []
  for (const block of blocksOf(proseOf(text))) {
    const heading = /^#+ (.+)$/.exec(block[0] ?? '')?.[1]
    if (heading !== undefined) anchor = anchorOf(heading)
    else {
      const words = block.map((line) => line.trim()).join(' ')
      promises.push({ document, anchor, hash: hashOf(words), words })
    }
  }
  return promises
}

export const promisesFile = 'tests/promises.tsv'
/** The documents that operators act on, and the specification. What others say is explained in one of these. */
export const promisingDocuments = [
  ...['install', 'nodes', 'run', 'back-up-and-upgrade', 'observe', 'secure'].map(
    (name) => `docs/operations/${name}.md`,
  ),
  'docs/security.md',
  'docs/trust.md',
  'docs/specification.md',
]

/** What is no test in the column of files: text that promises nothing, and a promise that no test can hold. */
export const guide = 'guide'
export const untested = 'untested'

/** One row of the file: which test holds a promise. A promise may have several. */
export interface Holder {
  readonly key: string
  /** A test file, `guide` or `untested`. */
  readonly file: string
  /** How the title of the test begins, or the reason. */
  readonly title: string
}

export const keyOf = ({ document, anchor, hash }: DocumentPromise): string => `${document}\t${anchor}\t${hash}`

/** Tabs separate document, anchor, hash, file and title; `#` starts a comment. */
export function holdersOf(table: string): readonly Holder[] {
  return table
    .split('\n')
    .filter((line) => line !== '' && !line.startsWith('#'))
    .map((line) => {
      const [document = '', anchor = '', hash = '', file = '', ...title] = line.split('\t')
      return { key: `${document}\t${anchor}\t${hash}`, file, title: title.join('\t') }
    })
}

/** A title is how a text of the file begins, in any of the three quotes. */
export const holdsTitle = (source: string, title: string): boolean =>
  ["'", '"', '`'].some(
    (quote) => source.includes(`${quote}${title}`) || source.includes(`${quote}${title.replaceAll("'", "\\'")}`),
  )

/** What `tests/promises.test.ts` asks for and is not there, with what its author needs to add it. */
if (import.meta.main) {
  const read = async (file: string): Promise<string> => await Bun.file(`${import.meta.dir}/../${file}`).text()
  const holders = holdersOf(await read(promisesFile))
  const known = new Set(holders.map(({ key }) => key))
  const all = new Set<string>()
  for (const document of promisingDocuments)
    for (const promise of promisesOf(document, await read(document))) {
      all.add(keyOf(promise))
      if (!known.has(keyOf(promise))) console.log(`new\t${keyOf(promise)}\t\t${promise.words}`)
    }
  for (const { key, file, title } of holders) if (!all.has(key)) console.log(`gone\t${key}\t${file}\t${title}`)
}
