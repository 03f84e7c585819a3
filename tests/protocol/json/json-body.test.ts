import { expect, test } from 'bun:test'
import { Type } from '@sinclair/typebox'
import { Problem } from '../../../src/errors.ts'
import { checkValue, parseJson, readBody, readJsonText } from '../../../src/protocol/json/json-body.ts'
import { dottedPath } from '../../../src/protocol/validation/sentences.ts'

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

test('§27: 128 levels pass, 129 do not, in arrays and objects alike, and the message says so', async () => {
  expect(await codeOf(() => parseJson(nested(128)))).toBeNull()
  expect(await codeOf(() => parseJson(nested(129)))).toBe('invalid_json')
  expect(await codeOf(() => parseJson(`${'{"a":'.repeat(129)}1${'}'.repeat(129)}`))).toBe('invalid_json')
  expect(await codeOf(() => parseJson(nested(1_000_000)))).toBe('invalid_json')
  expect(await codeOf(() => parseJson('['.repeat(1_000_000)))).toBe('invalid_json')
  expect(() => parseJson(nested(129))).toThrow('The body nests deeper than 128 levels')
})

test('§27: a key that comes twice is refused by its name, wherever it stands and however it is written', async () => {
  const named = (text: string) => {
    try {
      parseJson(text)
    } catch (error) {
      return error instanceof Problem ? [error.code, error.message] : error
    }
    return null
  }
  const twice = (key: string) => ['invalid_json', `The key ${key} comes twice in one object`]
  expect(named('{"model":"a","model":"b"}')).toEqual(twice('model'))
  expect(named('{"model":"a","\\u006dodel":"b"}')).toEqual(twice('model'))
  expect(named('{"messages":[{"role":"user","content":"x","content":"y"}]}')).toEqual(twice('content'))
  expect(named('{"svc":{"mixture":{"experts":[{"model":"a","weight":1,"weight":2}]}}}')).toEqual(twice('weight'))
  expect(named(`{"a\\u0007${'x'.repeat(100)}":1,"a\\u0007${'x'.repeat(100)}":1}`)).toEqual(twice(`a${'x'.repeat(63)}…`))
  expect(named('{"a":{"b":1},"c":{"b":1},"d":[{"b":1},{"b":1}]}')).toBeNull()
  expect(named('{"__proto__":{"a":1},"toString":1,"1":1}')).toBeNull()
})

test('§27: a body is UTF-8 and says nothing else', async () => {
  const bytes = (...parts: (string | number[])[]) =>
    new Uint8Array(
      Buffer.concat(parts.map((part) => (typeof part === 'string' ? Buffer.from(part) : Buffer.from(part)))),
    )
  const sent = (body: Uint8Array<ArrayBuffer>, type = 'application/json', length = true) =>
    new Request('http://localhost/', {
      method: 'POST',
      body: length ? body : new Blob([body]).stream(),
      headers: { 'content-type': type, ...(length ? { 'content-length': String(body.length) } : {}) },
    })
  const broken = [[0xff], [0xc3], [0xc0, 0xaf], [0xed, 0xa0, 0x80], [0xf0, 0x9f, 0x98]]
  for (const odd of broken) {
    for (const length of [true, false]) {
      const request = sent(bytes('{"a":"', odd, '"}'), undefined, length)
      expect([odd, await codeOf(() => readJsonText(request, 100))]).toEqual([odd, 'invalid_json'])
    }
  }
  // One body leaves nothing to the next.
  const [half, rest] = [bytes('"', [0xf0, 0x9f, 0x98]), bytes([0x80], '"')]
  expect(await codeOf(() => readJsonText(sent(half), 100))).toBe('invalid_json')
  expect(await codeOf(() => readJsonText(sent(rest), 100))).toBe('invalid_json')
  for (let turn = 0; turn < 2; turn++) expect(await readJsonText(sent(bytes([0xef, 0xbb, 0xbf], '{}')), 100)).toBe('{}')
  // The replacement character itself may be sent.
  expect(await readJsonText(sent(bytes('{"a":"\ufffd 😀"}')), 100)).toBe('{"a":"\ufffd 😀"}')
  for (const charset of ['utf-8', 'UTF8', '"utf-8"']) {
    expect(await codeOf(() => readJsonText(sent(bytes('{}'), `application/json; charset=${charset}`), 9))).toBeNull()
  }
  for (const charset of ['utf-16', 'iso-8859-1', '"latin1"', '']) {
    const request = sent(bytes('{}'), `application/json;q=1; charset=${charset}`)
    expect([charset, await codeOf(() => readJsonText(request, 9))]).toEqual([charset, 'unsupported_media_type'])
  }
})

test('§27: lengths count code points', async () => {
  const text = Type.String({ minLength: 1, maxLength: 4 })
  const schema = Type.Object({
    name: text,
    maybe: Type.Optional(Type.Union([text, Type.Null()])),
    all: Type.Optional(Type.Array(Type.Union([Type.Object({ inner: text }), Type.Number()]))),
  })
  const four = '😀'.repeat(4)
  expect(checkValue({ name: four, maybe: four, all: [{ inner: four }, 1] }, schema).name).toBe(four)
  for (const value of [
    { name: `${four}x` },
    { name: 'x', maybe: `${four}x` },
    { name: 'x', all: [{ inner: 'xxxxx' }] },
  ]) {
    expect(await codeOf(() => checkValue(value, schema))).toBe('invalid_request')
  }
  expect(await codeOf(() => checkValue({ name: four, all: [true] }, schema))).toBe('invalid_request')
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
