import { expect, test } from 'bun:test'
import { ggufHead } from '../../../src/node/pulls/gguf.ts'
import { estimateOf, saysEnough } from '../../../src/node/pulls/model-estimate.ts'
import { ggufFile, ggufHeader, llamaPairs } from '../../support/nodes/gguf-file.ts'

const mib = 1024 * 1024
const headOf = (pairs: Parameters<typeof ggufHeader>[0]) => {
  const head = ggufHead(ggufHeader(pairs))
  if (head === null) throw new Error('no model')
  return head
}
/** Beside weights and all that does not depend on the context. */
const cacheMb = (pairs: Parameters<typeof ggufHeader>[0], tokens: number) => {
  const at = (asked: number) => estimateOf(headOf(pairs), 100 * mib, asked)?.memoryMb ?? 0
  return at(tokens) - at(1)
}

test('§39: the cache of keys and values is that of its layers and heads, for the tokens asked for and no more than the model can', () => {
  // 4 layers, 2 heads of 64 numbers each for keys and values, 2 bytes.
  expect(cacheMb(llamaPairs, 16_384)).toBeCloseTo((4 * 2 * 64 * 2 * 2 * 16_384) / mib, -1)
  expect(estimateOf(headOf(llamaPairs), 0, 1_000_000)?.contextLength).toBe(32_768)
  expect(estimateOf(headOf(llamaPairs), 0, null)?.contextLength).toBe(8_192)
})

test('§39: heads that differ by layer, keys of another length, and one small vector for all heads', () => {
  const by = (more: object) => cacheMb({ ...llamaPairs, ...more }, 32_768)
  expect(by({ 'llama.attention.head_count_kv': [2, 0, 2, 0] })).toBeCloseTo(by({}) / 2, -1)
  expect(by({ 'llama.attention.key_length': 128, 'llama.attention.value_length': 128 })).toBeCloseTo(2 * by({}), -1)
  const latent = by({ 'llama.attention.kv_lora_rank': 64, 'llama.rope.dimension_count': 64 })
  expect(latent).toBeCloseTo((4 * 128 * 2 * 32_768) / mib, -1)
})

test('§39: a large vocabulary counts in what is computed, also where only its list tells it', () => {
  const tokens = Array.from({ length: 50_000 }, (_, at) => `t${at}`)
  const [told, listed] = [{ 'llama.vocab_size': 50_000 }, { 'tokenizer.ggml.tokens': tokens }].map(
    (more) => estimateOf(headOf({ ...llamaPairs, ...more }), 0, 1)?.memoryMb ?? 0,
  )
  expect(listed).toBe(told ?? -1)
  expect((told ?? 0) - (estimateOf(headOf(llamaPairs), 0, 1)?.memoryMb ?? 0)).toBeCloseTo((50_000 * 512 * 4) / mib, -1)
})

test('§39: a header is read as far as it is there', () => {
  const whole = ggufFile(4_000)
  for (const size of [4, 24, 60, 200]) {
    const head = ggufHead(whole.subarray(0, size))
    expect([size, head === null || saysEnough(head)]).toEqual([size, false])
  }
  const head = ggufHead(whole)
  expect(head?.whole).toBe(true)
  expect(head?.pairs.get('general.architecture')).toBe('llama')
})

test('§39: bytes that are no model, or lie about their lengths, are none', () => {
  const bytes = (...parts: number[]) => Uint8Array.from(parts)
  const magic = [0x47, 0x47, 0x55, 0x46]
  const long = Array.from({ length: 8 }, () => 0xff)
  expect(ggufHead(bytes(1, 2, 3, 4, 5, 6, 7, 8))).toBeNull()
  expect(ggufHead(bytes(...magic, 1, 0, 0, 0))).toBeNull()
  expect(ggufHead(bytes(...magic, 3, 0, 0, 0, ...long, ...long))).toBeNull()
  const one = [3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0]
  // A key of 2^64 - 1 bytes, and a value of a type that there is not.
  expect(ggufHead(bytes(...magic, ...one, ...long))).toBeNull()
  expect(ggufHead(bytes(...magic, ...one, 1, 0, 0, 0, 0, 0, 0, 0, 0x61, 99, 0, 0, 0))).toBeNull()
  expect(estimateOf(headOf({ 'general.architecture': 'clip' }), 0, null)).toBeNull()
})
