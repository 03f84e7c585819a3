import { expect, test } from 'bun:test'
import { VectorLengths, vectorLength } from '../../../src/protocol/embeddings/vector-lengths.ts'

test('the numbers of a vector, as a list and as base64', () => {
  for (const numbers of [1, 2, 3, 4, 384, 1_024, 65_536]) {
    const vector = Array.from({ length: numbers }, (_, at) => at / 7)
    const bytes = Buffer.from(new Float32Array(vector).buffer)
    expect(vectorLength(JSON.stringify(vector))).toBe(numbers)
    expect(vectorLength(JSON.stringify(bytes.toString('base64')))).toBe(numbers)
    expect(vectorLength(`"${bytes.toString('base64').replaceAll('=', '')}"`)).toBe(numbers)
  }
})

test('a length belongs to a model and to what was asked for; the newest stands', () => {
  const lengths = new VectorLengths()
  lengths.learn('m', null, 768)
  lengths.learn('m', 256, 256)
  expect([lengths.of('m', null), lengths.of('m', 256), lengths.of('m', 512), lengths.of('n', null)]).toEqual([
    768,
    256,
    null,
    null,
  ])
  lengths.learn('m', null, 1_024)
  expect(lengths.of('m', null)).toBe(1_024)
})

test('what is remembered is bounded', () => {
  const lengths = new VectorLengths()
  for (let at = 0; at < 5_000; at++) lengths.learn(`m${at}`, null, at + 1)
  expect([lengths.of('m4095', null), lengths.of('m4096', null)]).toEqual([4_096, null])
})
