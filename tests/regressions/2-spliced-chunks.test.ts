import { expect, test } from 'bun:test'
import { ChunkRewriter } from '../../src/protocol/chat/chunk-rewriter.ts'

const rewriter = () => new ChunkRewriter({ id: 'chatcmpl-1', created: 1, model: 'm' })
const chunk = (content: string, more: object = {}) =>
  JSON.stringify({ choices: [{ index: 0, delta: { content }, finish_reason: null, ...more }] })
const dataOf = (text: string) => text.split('\n\n').filter((block) => block !== '')

/**
 * Symptom: after a chunk whose logprobs held the text `@penstock-content@`, clients got chunks cut off in the middle.
 * Cause: the template of the fast path is cut at that mark, and only the first two of its parts were kept.
 * Fix: a chunk in which the mark stands more than once teaches nothing.
 */
test('§6: a node that sends the mark of the fast path breaks no chunk', () => {
  const one = rewriter()
  const logprobs = { note: '@penstock-content@' }
  for (const text of ['a', 'b', 'c']) {
    const accepted = one.accept(chunk(text, { logprobs }))
    if (accepted.kind !== 'chunk') throw new Error(accepted.kind)
    const last = JSON.parse(dataOf(accepted.text).at(-1)?.slice('data: '.length) ?? '') as object
    expect(last).toMatchObject({ choices: [{ delta: { content: text }, logprobs }] })
  }
})

/**
 * Symptom: the time to the first token was that of the last one, and a client that left early got no receipt.
 * Cause: a chunk with empty text taught the fast path, which then never noted that text had come.
 * Fix: the fast path notes it too.
 */
test('§5: text that comes after an empty chunk counts as content', () => {
  const one = rewriter()
  one.accept(chunk(''))
  one.accept(chunk('x'))
  expect(one.contentSeen).toBe(true)
})

/**
 * Symptom: without usage of the node, an answer with many line feeds or `\uXXXX` was estimated up to three times too high.
 * Cause: the fast path weighed the escaped text.
 * Fix: it weighs what the escapes stand for.
 */
test('§7: an escape weighs as the character it stands for', () => {
  const one = rewriter()
  for (let i = 0; i < 10; i++) one.accept(chunk('é').replaceAll('é', '\\u00e9'))
  expect(one.outputWeight).toBeCloseTo(6, 9)
})

/**
 * Symptom: the last words of an answer were missing.
 * Cause: a node that sends two finish chunks, the second with the usage and no text, replaced the held first one.
 * Fix: the first one stays unless the second carries text.
 */
test('§6: a second finish chunk leaves the text of the first', () => {
  const one = rewriter()
  for (const content of ['the end', '']) one.accept(chunk(content, { finish_reason: 'stop' }))
  expect(one.terminal('', false)).toContain('the end')
})

/**
 * Symptom: usage of the first chunk was billed although the node reported the final one after the finish chunk.
 * Cause: any usage seen so far ended the wait for the usage that follows the finish chunk.
 * Fix: only usage on the finish chunk or after it does.
 */
test('§6: a running count does not end the wait for the usage', () => {
  const one = rewriter()
  const running = { prompt_tokens: 9, completion_tokens: 0 }
  one.accept(JSON.stringify({ choices: [{ index: 0, delta: { content: 'a' }, finish_reason: null }], usage: running }))
  one.accept(chunk('', { finish_reason: 'stop' }))
  expect(one.usageFinal).toBe(false)
  one.accept(JSON.stringify({ choices: [], usage: { prompt_tokens: 9, completion_tokens: 1 } }))
  expect([one.usageFinal, one.usage?.completion_tokens]).toEqual([true, 1])
})
