import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { workOf } from '../../../src/machines/rules/model-work.ts'
import { modalities, servedIn, servedLines } from '../../../src/protocol/wire/nodes/kinds-of-work.ts'

const none = { declared: null, reported: null, guessed: true, answered: [] } as const

test('§35: what counts: the declared, then the reported, then the answered, and a name where nothing was', () => {
  expect(workOf(none)).toEqual({ serves: ['chat'], guessed: true })
  expect(workOf({ ...none, reported: 'rerank' })).toEqual({ serves: ['rerank'], guessed: true })
  expect(workOf({ ...none, reported: 'rerank', answered: ['chat'] })).toEqual({ serves: ['chat'], guessed: true })
  expect(workOf({ ...none, answered: ['embedding'] })).toEqual({ serves: ['embedding', 'chat'], guessed: true })
  expect(workOf({ ...none, guessed: false, reported: 'embedding', answered: ['chat'] })).toEqual({
    serves: ['embedding'],
    guessed: false,
  })
  expect(workOf({ ...none, declared: ['rerank', 'chat'], answered: ['embedding'] })).toEqual({
    serves: ['rerank', 'chat'],
    guessed: false,
  })
})

test('§35: the lines of a declaration are read as they are written', () => {
  const model = fc.stringMatching(/^[A-Za-z0-9][A-Za-z0-9._:/@-]{0,20}$/)
  const kinds = fc.uniqueArray(fc.constantFrom(...modalities), { minLength: 1 })
  const served = fc.dictionary(fc.oneof(model, fc.constant('*')), kinds, { minKeys: 1 })
  fc.assert(
    fc.property(served, (declared) => {
      expect(servedIn(servedLines(declared))).toEqual({ ...declared })
    }),
  )
  expect(servedIn([])).toBeNull()
})
