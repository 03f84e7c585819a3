import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { StreamReading } from '../../../src/actors/operations/reading/stream-reading.ts'
import { ChunkRewriter } from '../../../src/protocol/chat/chunk-rewriter.ts'

const identity = { id: 'chatcmpl-1', created: 1_795_190_400, model: 'öffentlich/model' }

/** All that an answer becomes whose bytes come in these pieces. `firstOfContent`: the piece that brought it; null: none did. */
function read(pieces: readonly Buffer[]) {
  const told: string[] = []
  let skipped = 0
  const owner = {
    started: () => {},
    passed: (passed: string) => {
      text += passed
    },
    complete: () => void told.push('complete'),
    broken: (code: string) => {
      told.push(code)
      reading.close()
    },
    skipped: () => void skipped++,
  }
  let text = ''
  const rewriter = new ChunkRewriter(identity)
  const reading = new StreamReading(owner, rewriter, true)
  reading.begin()
  for (const piece of pieces) {
    reading.part(piece, 0, piece.length)
    text += reading.take()
  }
  reading.end()
  text += reading.take()
  const { outputWeight, usage, finish, contentSeen, svc } = rewriter
  const { bytesLeft, keptBytes } = reading
  return { text, told, skipped, outputWeight, usage, finish, contentSeen, svc, bytesLeft, keptBytes }
}

const inBytes = (pieces: readonly Buffer[]) => [...Buffer.concat(pieces)].map((byte) => Buffer.of(byte))

const chunk = (delta: object, more: object = {}) =>
  JSON.stringify({ id: 'x', choices: [{ index: 0, delta, finish_reason: null }], ...more })
const event = (data: string) => Buffer.from(`data: ${data}\n\n`)

const texts = fc.array(
  fc.constantFrom(
    'word ',
    'a',
    '',
    '"',
    '\\',
    '\n',
    'ä',
    '🙂',
    '语',
    '}',
    '"},"',
    '\u007f',
    '\u0000',
    '@penstock-content@',
  ),
  { maxLength: 5 },
)
const said = texts.map((parts) => chunk({ content: parts.join('') }))
/** As a node may write it that does not keep to JSON. */
const unescaped = texts.map((parts) => chunk({ content: '^' }).replace('^', parts.join('')))
const rare = fc.constantFrom(
  chunk({ reasoning_content: 'hm' }),
  chunk({ role: 'assistant', content: 'a' }),
  chunk({ content: 'a', extra: 1 }),
  chunk({ content: 'b' }, { usage: { prompt_tokens: 1, completion_tokens: 2 } }),
  chunk({ content: 'b' }, { svc: { receipt: 1 } }),
  chunk({ tool_calls: [{ index: 0, function: { name: 'f', arguments: '{' } }] }),
  '{"error":{"message":"x"}}',
  '{"choices":[{"index":0,"delta":{"content":"end"},"finish_reason":"stop"}]}',
  '[DONE]',
  'no JSON',
)
const framed = fc.oneof(
  { weight: 12, arbitrary: said.map(event) },
  { weight: 3, arbitrary: unescaped.map(event) },
  { weight: 1, arbitrary: rare.map(event) },
  { weight: 1, arbitrary: said.map((data) => Buffer.from(`data: ${data}\r\n\r\n`)) },
  { weight: 1, arbitrary: said.map((data) => Buffer.from(`data:${data}\n\n`)) },
  { weight: 1, arbitrary: said.map((data) => Buffer.from(`data: ${data}\n`)) },
  {
    weight: 1,
    arbitrary: fc.constantFrom(': ping\n\n', '\n', 'error: x\n\n', 'event: y\n').map((text) => Buffer.from(text)),
  },
)
const changed = fc.tuple(framed, fc.option(fc.tuple(fc.nat(), fc.nat(255)), { freq: 8 })).map(([bytes, change]) => {
  if (change !== null) bytes[change[0] % bytes.length] = change[1]
  return bytes
})

test('§6: an answer whose events come whole, one or several at a time, is the same as one that comes byte by byte', () => {
  const taught = ['so', ' it', ' goes', ' on'].map((content) => event(chunk({ content })))
  fc.assert(
    fc.property(fc.array(changed, { maxLength: 12 }), fc.array(fc.boolean(), { maxLength: 12 }), (events, joins) => {
      const pieces: Buffer[] = []
      for (const [at, bytes] of [...taught, ...events].entries()) {
        const before = joins[at] === true ? pieces.pop() : undefined
        pieces.push(before === undefined ? bytes : Buffer.concat([before, bytes]))
      }
      expect(read(pieces)).toEqual(read(inBytes(pieces)))
    }),
    { numRuns: 1_500 },
  )
})

test('§6: a line feed within JSON ends a line of an event, also where nodes write their chunks on several', () => {
  const lines = (content: string) => chunk({ content }).replace(',"choices"', ',\n"choices"')
  const taught = ['so', ' it', ' goes', ' on'].map((content) => event(lines(content).replaceAll('\n', '\ndata: ')))
  const broken = event(lines(' now'))
  const answer = read([...taught, broken])
  expect(answer).toEqual(read(inBytes([...taught, broken])))
  expect(answer.text).toContain('goes')
  expect(answer.text).not.toContain('now')
})

test('§6: events of the learnt shape become text without being parsed, and the one that differs is left', () => {
  const rewriter = new ChunkRewriter(identity)
  const known = [1, 2, 3, 4].map((at) => rewriter.accept(chunk({ content: `w${at}` })))
  expect(known.map(({ kind }) => kind)).toEqual(['chunk', 'chunk', 'chunk', 'chunk'])
  const usual = [event(chunk({ content: ' five' })), event(chunk({ content: ' six' }))]
  const other = event(chunk({ content: ' "seven"' }))
  const input = Buffer.concat([Buffer.from('..'), ...usual, other])
  const written: [text: string, bytes: number][] = []
  const next = rewriter.splice(input, 2, input.length, { spliced: (text, bytes) => void written.push([text, bytes]) })
  expect(next).toBe(input.length - other.length)
  const [[text, bytes] = ['', 0], ...more] = written
  expect(more).toEqual([])
  expect(bytes).toBe(Buffer.byteLength(text))
  expect(text).toMatch(/^(data: [^\n]+\n\n){2}$/)
  const chunks = text.split('\n\n').slice(0, 2)
  expect(chunks.map((each) => JSON.parse(each.slice('data: '.length)) as unknown)).toMatchObject(
    [' five', ' six'].map((content) => ({ ...identity, choices: [{ delta: { content } }] })),
  )
})
