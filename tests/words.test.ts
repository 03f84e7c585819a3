import { expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { join, relative } from 'node:path'

/** Sentences that a reader has to read twice, as far as words give them away. Each entry says what to write instead. */
interface BadSentence {
  readonly pattern: RegExp
  readonly better: string
  /** What it must find, so that no entry looks at nothing. */
  readonly finds: readonly string[]
  /** What is good English all the same. */
  readonly passes: readonly string[]
  /** Documents and pages alone, and not comments. */
  readonly documentsOnly?: boolean
}

const badSentences: readonly BadSentence[] = [
  {
    pattern: /\bwho(?:m)?ever\b/i,
    better: 'name who: the caller, the operator, anyone who',
    finds: ['Whoever runs a node can read it', 'for whomever it concerns'],
    passes: ['Anyone who runs a node can read it'],
  },
  {
    pattern: /(?<!\bthere )\b(?:is|are) none\b/i,
    better: 'say what it is not: `null: no alias`, "is no model"',
    finds: ['null: it is none', 'A name that is none ends the pull'],
    passes: ['absent while there is none', 'and where there are none'],
  },
  {
    pattern: /\bnobody (?:need|says|knows|keeps|tells|asks|waits|hears|measures)\b/i,
    better: 'name the subject, or what holds: "not reported", "no request waits for it"',
    finds: ['null: nobody knows', 'Nobody need wait'],
    passes: ['nobody in between can open it'],
  },
  {
    pattern: /\bso long as\b/i,
    better: '"while", or "as long as"',
    finds: ['so long as it runs'],
    passes: ['as long as it runs'],
  },
  {
    pattern: /\blets [^.|]{1,40}\bbe\b/i,
    better: '"allows", or the verb itself',
    finds: ['lets nothing be fetched'],
    passes: ['lets the operator choose'],
  },
  {
    pattern: /\blea(?:ve|ves|ving) (?:[^.|]{0,30} )?away\b/i,
    better: '"leave out", "do not set", "cut off"',
    finds: ['Leave `flush_interval` away'],
    passes: ['leave it out'],
  },
  {
    pattern: /\bas (?:many|much|long) as (?:it|they|he|she|one) likes?\b/i,
    better: 'name the limit, or say that there is no limit',
    finds: ['Empty: as many as it likes.'],
    passes: ['as many as the limit allows'],
  },
  {
    pattern: /\bso (?:many|much|often|long) (?:of|times|calls|tokens|processes|more)\b(?! that)/i,
    better: 'name the number: "this number of", "at most N"',
    finds: ['So many tokens a day', 'starts so many processes'],
    passes: ['so many requests that no figure has them'],
    documentsOnly: true,
  },
]

/** Uses that are meant: the file, and words of the line. */
const allowed: readonly (readonly [file: string, words: string])[] = []

const root = join(import.meta.dir, '..')
const documents = ['*.md', 'docs/**/*.md', 'bench/RESULTS.md', 'ops/*.{yaml,md,sh,conf,service}', 'src/**/*.html']
const sources = ['src/**/*.{ts,tsx,css,js}']
/** Of the program for browsers that is built, and of packages. */
const made = /node_modules|\.generated\./

const filesOf = (globs: readonly string[]) =>
  globs
    .flatMap((glob) => [...new Bun.Glob(glob).scanSync({ cwd: root })])
    .filter((file) => !made.test(file))
    .map((file) => relative(root, join(root, file)))

/** Lines with a bad sentence, with what to write instead. A sentence that goes on in the next line is read as one. */
function badLines(text: string, entries: readonly BadSentence[]): readonly (readonly [line: string, better: string])[] {
  return text.split('\n').flatMap((line, at, lines) => {
    const next = (lines[at + 1] ?? '').replace(/^[\s*/#-]+/, ' ')
    return entries.flatMap(({ pattern, better }) => {
      const found = pattern.exec(`${line}${next}`)
      return found !== null && found.index < line.length ? [[`${at + 1}: ${line.trim()}`, better] as const] : []
    })
  })
}

test('the dictionary finds what it is about, and lets good sentences pass', () => {
  for (const { pattern, finds, passes } of badSentences) {
    expect([pattern.source, finds.filter((text) => !pattern.test(text))]).toEqual([pattern.source, []])
    expect([pattern.source, passes.filter((text) => pattern.test(text))]).toEqual([pattern.source, []])
  }
  expect(badLines('what nobody\n * knows', badSentences)).toEqual([['1: what nobody', expect.any(String)]])
})

test('documents, pages, errors and comments have no sentence of the dictionary', () => {
  const inComments = badSentences.filter(({ documentsOnly }) => documentsOnly !== true)
  const looked = [
    ...filesOf(documents).map((file) => [file, badSentences] as const),
    ...filesOf(sources).map((file) => [file, inComments] as const),
  ]
  expect(looked.length).toBeGreaterThan(1_000)
  const used = new Set<string>()
  const faults = looked.flatMap(([file, entries]) =>
    badLines(readFileSync(join(root, file), 'utf8'), entries).flatMap(([line, better]) => {
      const meant = allowed.find(([of, words]) => of === file && line.includes(words))
      if (meant !== undefined) used.add(meant.join(' '))
      return meant === undefined ? [`${file}:${line} (better: ${better})`] : []
    }),
  )
  expect(faults).toEqual([])
  expect(allowed.filter((each) => !used.has(each.join(' ')))).toEqual([])
})
