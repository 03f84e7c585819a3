import { expect, test } from 'bun:test'
import { Type } from '@sinclair/typebox'
import { Problem } from '../../src/errors.ts'
import { dottedPath, isDeeperThan, parseJson, readBody, readJsonText } from '../../src/protocol/json-body.ts'

const nested = (levels: number) => '['.repeat(levels) + ']'.repeat(levels)
const codeOf = async (work: () => unknown) => {
  try {
    await work()
  } catch (error) {
    return error instanceof Problem ? error.code : error
  }
  return null
}
const post = (body: string, headers: Record<string, string> = { 'content-type': 'application/json' }) =>
  new Request('http://localhost/', { method: 'POST', body, headers })

test('§3: 64 levels pass, 65 do not, in arrays and objects alike', async () => {
  expect(isDeeperThan(JSON.parse(nested(64)), 64)).toBe(false)
  expect(isDeeperThan(JSON.parse(nested(65)), 64)).toBe(true)
  expect(await codeOf(() => parseJson(nested(64)))).toBeNull()
  expect(await codeOf(() => parseJson(nested(65)))).toBe('invalid_json')
  expect(await codeOf(() => parseJson(`${'{"a":'.repeat(65)}1${'}'.repeat(65)}`))).toBe('invalid_json')
  expect(await codeOf(() => parseJson(nested(1_000_000)))).toBe('invalid_json')
})

test('§1: only application/json, charset allowed, nothing compressed', async () => {
  const types = { 'application/json': null, 'application/json; charset=utf-8': null, 'APPLICATION/JSON ;x': null }
  const others = ['text/plain', 'application/jsonx', 'application/x-www-form-urlencoded', 'multipart/form-data']
  for (const [type, code] of Object.entries(types)) {
    expect([type, await codeOf(() => readJsonText(post('{}', { 'content-type': type }), 10))]).toEqual([type, code])
  }
  for (const type of others) {
    expect(await codeOf(() => readJsonText(post('{}', { 'content-type': type }), 10))).toBe('unsupported_media_type')
  }
  const gzip = { 'content-type': 'application/json', 'content-encoding': 'gzip' }
  expect(await codeOf(() => readJsonText(post('{}', gzip), 10))).toBe('unsupported_media_type')
})

test('§17: exactly the limit passes, one byte more does not, with and without a length', async () => {
  const streamed = (text: string) =>
    new Request('http://localhost/', {
      method: 'POST',
      body: new Blob([text]).stream(),
      headers: { 'content-type': 'application/json' },
    })
  const long = (text: string) =>
    post(text, { 'content-type': 'application/json', 'content-length': String(text.length) })
  for (const request of [streamed, long]) {
    expect(await readJsonText(request('"12345678"'), 10)).toBe('"12345678"')
    expect(await codeOf(() => readJsonText(request('"123456789"'), 10))).toBe('payload_too_large')
  }
  const umlauts = new Request('http://localhost/', {
    method: 'POST',
    body: new ReadableStream({
      start(controller) {
        // One character in two pieces.
        controller.enqueue(new Uint8Array([0x22, 0xc3]))
        controller.enqueue(new Uint8Array([0xa4, 0x22]))
        controller.close()
      },
    }),
    headers: { 'content-type': 'application/json' },
  })
  expect(await readJsonText(umlauts, 10)).toBe('"ä"')
})

test('§1: a body is checked as it was sent: no coercion, no silent removal', async () => {
  const schema = Type.Object({ n: Type.Integer() }, { additionalProperties: false })
  expect(await readBody(post('{"n":5}'), schema)).toEqual({ n: 5 })
  for (const body of ['{"n":"5"}', '{"n":5,"x":1}', '{}', '[]', '5']) {
    expect([body, await codeOf(() => readBody(post(body), schema))]).toEqual([body, 'invalid_request'])
  }
})

test('§2: paths are dotted, short, and without control characters', () => {
  expect(dottedPath('/messages/0/role')).toBe('messages[0].role')
  expect(dottedPath('/a~1b/c')).toBe('a/b.c')
  expect(dottedPath('')).toBe('')
  expect(dottedPath(`/${'x'.repeat(200)}\u0007`).length).toBeLessThan(70)
})
