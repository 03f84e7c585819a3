import { expect, test } from 'bun:test'
import { AnswerHeaders } from '../../src/http/inference/answer-headers.ts'
import { newId } from '../../src/ids.ts'

test('§5: an answer has the headers of its own limits and no others, whatever was answered before', () => {
  const known = new AnswerHeaders({ 'content-type': 'application/json' }, null)
  const [first, second, third] = [newId('req'), newId('req'), newId('req')]
  const plain = new Response('', { headers: known.of(first, {}) })
  const limited = new Response('', {
    headers: known.of(second, { ratelimit: '"minute";r=1', 'ratelimit-policy': 'p' }),
  })
  const after = new Response('', { headers: known.of(third, {}) })
  expect([...plain.headers]).toEqual([
    ['content-type', 'application/json'],
    ['x-request-id', first],
  ])
  expect(limited.headers.get('ratelimit')).toBe('"minute";r=1')
  expect(limited.headers.get('x-request-id')).toBe(second)
  expect(after.headers.get('ratelimit')).toBeNull()
  expect(after.headers.get('x-request-id')).toBe(third)
})
