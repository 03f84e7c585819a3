import * as bun from 'bun:test'
import { relative, resolve } from 'node:path'
import { testLimitMs } from './limits.ts'

/**
 * `bun:test`, whose hooks say who they are when they fail: Bun prints "(unnamed)". The preload puts this module in the
 * place of `bun:test` in all files of tests/.
 */
export * from 'bun:test'

type Hook = () => unknown

const root = resolve(import.meta.dir, '../../..')
/** Bun's own limit, which names nothing, comes after ours. */
const afterOursMs = 30_000

/** The file and line that asked for a hook: first the test file, and the file of its support that asked where one did. */
function askedAt(): string {
  const places = [...(new Error().stack ?? '').matchAll(/(?:\(|at )(\/[^()\n]+?):(\d+):\d+\)?$/gm)]
    .filter(([, file]) => file !== import.meta.path)
    .map(([, file = '', line]) => ({ file: relative(root, file), line }))
  const first = places[0]
  const test = places.find(({ file }) => file.endsWith('.test.ts')) ?? first
  const at = (place: typeof first) => (place === undefined ? 'an unknown file' : `${place.file}:${place.line}`)
  return test === first ? at(test) : `${at(test)} (${at(first)})`
}

function named(kind: string, hook: Hook): () => Promise<void> {
  const name = `${kind} of ${askedAt()}`
  return async () => {
    const late = Promise.withResolvers<never>()
    const timer = setTimeout(
      () => late.reject(new Error(`it did not end within ${testLimitMs / 1_000} s`)),
      testLimitMs,
    )
    try {
      await Promise.race([hook(), late.promise])
    } catch (cause) {
      throw new Error(`${name} failed`, { cause })
    } finally {
      clearTimeout(timer)
    }
  }
}

const limitMs = testLimitMs + afterOursMs
export const beforeAll = (hook: Hook) => bun.beforeAll(named('beforeAll', hook), limitMs)
export const beforeEach = (hook: Hook) => bun.beforeEach(named('beforeEach', hook), limitMs)
export const afterEach = (hook: Hook) => bun.afterEach(named('afterEach', hook), limitMs)
export const afterAll = (hook: Hook) => bun.afterAll(named('afterAll', hook), limitMs)
