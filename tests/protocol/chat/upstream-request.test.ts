import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { chat } from '../../../src/actors/operations/chat.ts'
import { upstreamBody } from '../../../src/protocol/chat/upstream-request.ts'
import { parseJson } from '../../../src/protocol/json/json-body.ts'
import type { ChatRequest } from '../../../src/protocol/wire/inference/chat.ts'

const messages: ChatRequest['messages'] = [{ role: 'user', content: 'hi' }]
const stripped = ['svc', 'user', 'safety_identifier', 'metadata', 'store', 'prompt_cache_key', 'service_tier']
/** As the node gets it. */
const built = (text: string, body: ChatRequest, ceiling: number | null, changed?: Record<string, unknown>) => {
  const upstream = upstreamBody(text, body, ceiling, changed)
  return { forModel: (model: string) => [upstream.forModel(model)].flat().join('') }
}
const spliced = (body: ChatRequest, ceiling: number | null) => built(JSON.stringify(body), body, ceiling)
const sent = (body: object, ceiling: number | null = null, model = 'local/m.gguf') =>
  JSON.parse(spliced({ model: 'm', messages, ...body }, ceiling).forModel(model)) as Record<string, unknown>

describe('§5: the body a node gets', () => {
  test('its own name of the model, everything else as it came', () => {
    const extra = {
      tools: [{ type: 'function', function: { name: 'f', parameters: { type: 'object' } } }],
      tool_choice: 'auto',
      response_format: { type: 'json_schema', json_schema: { name: 's', schema: {} } },
      seed: 7,
      chat_template_kwargs: { enable_thinking: false },
      something_new: { nested: [1, null, 'x'] },
      temperature: 0,
      stop: null,
    }
    expect(sent(extra)).toEqual({ model: 'local/m.gguf', messages, ...extra })
  })

  test.each(stripped)('%s is stripped', (key) => {
    expect(sent({ [key]: { a: 1 } })).toEqual({ model: 'local/m.gguf', messages })
  })

  test('of unknown fields each one arrives, none is added', () => {
    const reserved = [...stripped, 'model', 'messages', 'stream', 'stream_options', 'max_tokens', '__proto__']
    const key = fc.string().filter((name) => !reserved.includes(name))
    fc.assert(
      fc.property(fc.dictionary(key, fc.jsonValue()), (extra) => {
        const given = JSON.parse(JSON.stringify(extra)) as object
        expect(sent(given)).toEqual({ model: 'local/m.gguf', messages, ...given })
      }),
    )
  })

  test('beside messages that were fitted, everything else still goes on to the letter', () => {
    const turn = '{"role":"developer","content":"x"},{"role":"assistant","tool_calls":[{"id":"c"}]}'
    const fit = '{"role":"system","content":"x"},{"role":"assistant","tool_calls":[{"id":"c"}],"content":null}'
    const rest = '"seed": 12345678901234567890 , "temperature":1.0'
    const body = chat.read(`{"model":"m","messages":[${turn}],${rest}}`)
    const text = `{"model":"m","messages":[${turn}],${rest}}`
    expect(built(text, body, 5).forModel('x')).toBe(`{"model":"x","messages":[${fit}],"max_tokens":5,${rest}}`)
    const changed = { messages: [{ role: 'user', content: 'other' }] }
    expect(built(text, body, null, changed).forModel('x')).toBe(
      `{"model":"x","messages":${JSON.stringify(changed.messages)},${rest}}`,
    )
    const hinted = `{"model":"m","messages":[{"role":"developer","content":"x","cache_control":{}}]}`
    expect(built(hinted, chat.read(hinted), null).forModel('x')).toBe(
      '{"model":"x","messages":[{"role":"system","content":"x"}]}',
    )
  })

  test('the request itself is left as it is', () => {
    const body: ChatRequest = { model: 'm', messages, stream: true, svc: { job_id: 'j' } }
    const before = structuredClone(body)
    spliced(body, 5).forModel('x')
    expect(body).toEqual(before)
  })

  test('a long text is cut where it was found to be cut when it was read, whatever blanks stand there', () => {
    const content = 'a,"b":{\\"}]\n'.repeat(2_000)
    const long = JSON.stringify([{ role: 'user', content }])
    const cut = (svc: string) => {
      const text = ` {\n"svc" : ${svc} ,"messages" :${long} , "seed": 1.0 \n, "user":"u" , "model":"m"}\n`
      return built(text, parseJson(text) as ChatRequest, null).forModel('x')
    }
    const expected = `{"model":"x","messages" :${long} , "seed": 1.0}`
    expect([cut('{"a":"1"}'), cut('[{},2,3]'), cut('"},\\"{"')]).toEqual([expected, expected, expected])
  })

  test.each([0, 20_000])('of very many members each one arrives, with %i characters before them', (padding) => {
    const extra = Object.fromEntries(Array.from({ length: 200 }, (_, at) => [`k${at}`, at]))
    const text = JSON.stringify({ model: 'm', messages, user: 'u', pad: 'x'.repeat(padding), ...extra })
    const { pad, ...sentOn } = JSON.parse(built(text, parseJson(text) as ChatRequest, null).forModel('x'))
    expect(pad).toHaveLength(padding)
    expect(sentOn).toEqual({ model: 'x', messages, ...extra })
  })

  test('a text of our own that nests deeper than foreign ones may arrives whole', () => {
    const deep = (levels: number): unknown => (levels === 0 ? 1 : [deep(levels - 1)])
    expect(sent({ deep: deep(200), svc: {}, seed: 1 })).toEqual({
      model: 'local/m.gguf',
      messages,
      deep: deep(200),
      seed: 1,
    })
  })

  test('a long body arrives as it came', () => {
    const long = [{ role: 'user' as const, content: 'ä\n"😀'.repeat(8_000) }]
    expect(sent({ messages: long, svc: { job_id: 'j' }, seed: 1 })).toEqual({
      model: 'local/m.gguf',
      messages: long,
      seed: 1,
    })
  })

  test('one body serves several routes', () => {
    const upstream = spliced({ model: 'm', messages }, null)
    const names = ['a', 'b'].map((name) => (JSON.parse(upstream.forModel(name)) as { model: string }).model)
    expect(names).toEqual(['a', 'b'])
  })
})

describe('§6: usage is always asked of the node', () => {
  test.each([
    ['no options', undefined, { include_usage: true }],
    ['null', null, { include_usage: true }],
    ['false', { include_usage: false }, { include_usage: true }],
    ['others stay', { continuous_usage_stats: true }, { continuous_usage_stats: true, include_usage: true }],
  ] as const)('%s', (_name, given, told) => {
    expect(sent({ stream: true, ...(given === undefined ? {} : { stream_options: given }) }).stream_options).toEqual(
      told,
    )
  })

  test('without a stream nothing is added', () => {
    expect('stream_options' in sent({ stream: false })).toBe(false)
    expect('stream_options' in sent({})).toBe(false)
  })
})

test('§13: a ceiling is injected as max_tokens', () => {
  expect(sent({}, 512).max_tokens).toBe(512)
  expect('max_tokens' in sent({})).toBe(false)
  expect(sent({ max_completion_tokens: 9 }).max_completion_tokens).toBe(9)
})

describe('the cut of the text', () => {
  const parse = (text: string, ceiling: number | null = null) =>
    built(text, JSON.parse(text) as ChatRequest, ceiling).forModel('x')

  test('whatever the layout and the values: what a rewritten body would be', () => {
    const key = fc.constantFrom(
      'messages',
      'tools',
      'seed',
      'user',
      'a b',
      'ü',
      '',
      'svc',
      'model',
      'max_tokens',
      'x"y',
    )
    const layout = fc.constantFrom(undefined, 1, '\t', ' \r\n')
    fc.assert(
      fc.property(fc.dictionary(key, fc.jsonValue()), layout, fc.option(fc.nat()), (value, space, ceiling) => {
        const given = JSON.parse(JSON.stringify(value)) as Record<string, unknown>
        const text = JSON.stringify(given, null, space)
        const wanted: Record<string, unknown> = { ...given, model: 'x' }
        for (const name of stripped) delete wanted[name]
        if (ceiling !== null) wanted.max_tokens = ceiling
        expect(JSON.parse(parse(text, ceiling))).toEqual(wanted)
      }),
    )
  })

  test('numbers keep their digits', () => {
    expect(parse('{"model":"m","seed":9007199254740993,"temperature":1.0,"messages":[]}')).toBe(
      '{"model":"x","seed":9007199254740993,"temperature":1.0,"messages":[]}',
    )
  })

  test.each([
    ['an escaped key', '{"model":"m","\\u0073vc":{"secret":1},"messages":[]}'],
    ['a key that comes twice', '{"svc":1,"model":"m","messages":[],"svc":{"secret":1}}'],
    ['a key that comes twice, once escaped', '{"user":"a","model":"m","messages":[],"us\\u0065r":"secret"}'],
  ])('%s is stripped all the same', (_name, text) => {
    expect(JSON.parse(parse(text))).toEqual({ model: 'x', messages: [] })
    expect(parse(text)).not.toContain('secret')
  })

  test('quotes, brackets and backslashes inside texts end nothing', () => {
    const content = 'a"}],\\"{ \\\\'
    const text = JSON.stringify({ messages: [{ role: 'user', content }], user: content, model: 'm', z: [content, {}] })
    expect(JSON.parse(parse(text))).toEqual({ model: 'x', messages: [{ role: 'user', content }], z: [content, {}] })
  })
})

test('§7: members that a sub-call has of its own take the place of the client’s, or are taken out', () => {
  const text =
    '{"model":"m","stream":true,"messages":[{"role":"user","content":"x"}],"tools":[{"a":1}],"seed":12345678901234567890}'
  const body = JSON.parse(text) as ChatRequest
  const changed = { stream: false, stream_options: undefined, tools: undefined }
  const sent = built(text, { ...body, stream: false }, 7, changed).forModel('n')
  expect(JSON.parse(sent)).toEqual({
    model: 'n',
    max_tokens: 7,
    stream: false,
    messages: body.messages,
    seed: JSON.parse('12345678901234567890'),
  })
  // To the letter, as of any other request.
  expect(sent).toContain('"seed":12345678901234567890')
  const twice = `{"model":"m","model":"m",${text.slice(1)}`
  expect(JSON.parse(built(twice, { ...body, stream: false }, 7, changed).forModel('n'))).toEqual(JSON.parse(sent))
})
