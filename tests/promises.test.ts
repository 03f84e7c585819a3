import { expect, test } from 'bun:test'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import {
  guide,
  holdersOf,
  holdsTitle,
  keyOf,
  promisesFile,
  promisesOf,
  promisingDocuments,
  untested,
} from '../scripts/promises.ts'

/**
 * Each row of a table, item and paragraph of the documents that operators act on has its rows in tests/promises.tsv, which name the tests that
 * fail when it is not true. `node scripts/bun.mjs scripts/promises.ts` prints what is new and what is gone.
 */
const root = join(import.meta.dir, '..')
const read = (file: string) => readFileSync(join(root, file), 'utf8')
const promises = promisingDocuments.flatMap((document) => promisesOf(document, read(document)))
const holders = holdersOf(read(promisesFile))
const tested = holders.filter(({ file }) => file !== guide && file !== untested)

test('the reader of promises finds rows, items and paragraphs, and neither headings nor code', () => {
  const text = ['# One', '', 'A paragraph', 'of two lines.', '- An item', '  goes on', '', '```sh', 'code', '```']
  const table = ['## Two words', '| Head | Row |', '| --- | --- |', '| a | b |', '| c | d |']
  expect(promisesOf('x.md', [...text, ...table].join('\n')).map(({ anchor, words }) => `${anchor}: ${words}`)).toEqual([
    'one: A paragraph of two lines.',
    'one: - An item goes on',
    'two-words: | a | b |',
    'two-words: | c | d |',
  ])
})

test('every promise has a row that was written for its words', () => {
  const known = new Set(holders.map(({ key }) => key))
  expect(promises.length).toBeGreaterThan(1_000)
  expect(
    promises.filter((promise) => !known.has(keyOf(promise))).map(({ anchor, words }) => `${anchor}: ${words}`),
  ).toEqual([])
})

test('no row is left of a promise that is gone or has changed', () => {
  const all = new Set(promises.map(keyOf))
  expect(holders.filter(({ key }) => !all.has(key))).toEqual([])
})

test('the tests that the rows name are there', () => {
  const sources = new Map(
    [...new Set(tested.map(({ file }) => file))].map((file) => [file, existsSync(join(root, file)) ? read(file) : '']),
  )
  const absent = tested.filter(({ file, title }) => title.length < 8 || !holdsTitle(sources.get(file) ?? '', title))
  expect(absent.map(({ file, title }) => `${file}: ${title}`)).toEqual([])
})

test('at most one promise in twenty has no test, each with its reason', () => {
  const kinds = Map.groupBy(holders, ({ key }) => key)
  const without = [...kinds.values()].filter((rows) => rows.some(({ file }) => file === untested))
  const guides = [...kinds.values()].filter((rows) => rows.every(({ file }) => file === guide))
  expect(without.flat().filter(({ title }) => title.length < 20)).toEqual([])
  expect(without.length).toBeLessThanOrEqual((kinds.size - guides.length) / 20)
})
