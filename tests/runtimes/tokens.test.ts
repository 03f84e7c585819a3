import { describe, expect, test } from 'bun:test'
import { tokenizerOf } from '../../src/runtimes/registry.ts'
import { readTokenList, tokensMax } from '../../src/runtimes/tokens/token-list.ts'
import { NoSuchTokenizer, type TokenAsk, type Tokenizer } from '../../src/runtimes/tokens/tokenizer.ts'

const idsOf = (text: string) => readTokenList(text)?.ids ?? null

describe('§28: a list of tokens', () => {
  test.each([
    ['{"tokens":[]}', []],
    ['{"tokens":[0]}', [0]],
    ['{"tokens":[2147483647,7]}', [2_147_483_647, 7]],
    ['{ "count" : 3 , "tokens" :\r\n[ 1 ,\t22\n, 333 ] , "x" : [ "]" ] }', [1, 22, 333]],
    ['{"said":"\\"tokens\\":[9]","tokens":[1]}', [1]],
  ])('is read: %s', (text, ids) => {
    expect(idsOf(text)).toEqual(ids)
  })

  test.each([
    '{"tokens":[2147483648]}',
    '{"tokens":[1,2',
    '{"tokens":[1,]}',
    '{"tokens":[,1]}',
    '{"tokens":[1,,2]}',
    '{"tokens":[1 2]}',
    '{"tokens":[1:2]}',
    '{"tokens":[-1]}',
    '{"tokens":[1.5]}',
    '{"tokens":[1e3]}',
    '{"tokens":["1"]}',
    '{"tokens":[[1]]}',
    '{"tokens":{"1":2}}',
    '{"tokens":[1]',
    '[{"tokens":[1]}]',
    '{"token":[1]}',
    '',
  ])('is none: %s', (text) => {
    expect(readTokenList(text)).toBeNull()
  })

  test('has at most a million', () => {
    const list = (length: number) => `{"tokens":[${Array.from({ length }, () => 7).join()}]}`
    expect(idsOf(list(tokensMax))?.length).toBe(tokensMax)
    expect(idsOf(list(tokensMax + 1))).toBeNull()
  })

  test('leaves the rest of the answer', () => {
    expect(readTokenList('{"a":1,"tokens":[1,2],"b":"c"}')?.rest).toEqual({ a: 1, tokens: [], b: 'c' })
  })
})

/** What the server was asked, and what it says, path by path. */
function server(answers: Readonly<Record<string, unknown>>) {
  const asked: (readonly [string, object])[] = []
  const ask: TokenAsk = async (path, body) => {
    asked.push([path, body])
    return JSON.stringify(answers[path])
  }
  return { asked, ask }
}

const tokenizer = (kind: 'llama.cpp' | 'vllm' | 'sglang') => tokenizerOf(kind) as Tokenizer
/** Every member that a template may read, and one that none reads. */
const chat = {
  messages: [{ role: 'user', content: 'hi' }],
  tools: [],
  tool_choice: 'none',
  parallel_tool_calls: false,
  response_format: { type: 'text' },
  reasoning_effort: 'low',
  chat_template_kwargs: {},
  add_generation_prompt: true,
  continue_final_message: false,
  temperature: 1,
}

describe('§28: how each kind of server is asked', () => {
  test('llama.cpp: the members that its template reads, then the text as it reads its own prompts', async () => {
    const { asked, ask } = server({ '/apply-template': { prompt: 'P' }, '/tokenize': { tokens: [1, 2] } })
    const told = await tokenizer('llama.cpp').ofChat(ask, { model: 'm', chat, strings: false })
    expect(told).toEqual({ ids: [1, 2], strings: null })
    const { temperature: _, ...read } = chat
    expect(asked).toEqual([
      ['/apply-template', { model: 'm', ...read }],
      ['/tokenize', { model: 'm', content: 'P', add_special: true, with_pieces: false }],
    ])
  })

  test('vLLM and SGLang: those that their own path takes', async () => {
    const answer = { count: 1, tokens: [7] }
    const vllm = server({ '/tokenize': answer })
    await tokenizer('vllm').ofChat(vllm.ask, { model: 'm', chat, strings: true })
    const { messages, tools, tool_choice, reasoning_effort, chat_template_kwargs } = chat
    const both = { model: 'm', messages, tools, chat_template_kwargs, continue_final_message: false }
    expect(vllm.asked).toEqual([['/tokenize', { ...both, add_generation_prompt: true, return_token_strs: true }]])
    const sglang = server({ '/tokenize': answer })
    await tokenizer('sglang').ofChat(sglang.ask, { model: 'm', chat, strings: true })
    expect(sglang.asked).toEqual([['/tokenize', { ...both, tool_choice, reasoning_effort }]])
    const closed = { ...chat, add_generation_prompt: false }
    const refused = tokenizer('sglang').ofChat(sglang.ask, { model: 'm', chat: closed, strings: false })
    expect(await refused.catch((error: unknown) => error)).toBeInstanceOf(NoSuchTokenizer)
  })

  test('all tokens are written, special ones, too', async () => {
    const asked = { model: 'm', ids: [1, 2] }
    for (const [kind, answer, more] of [
      ['llama.cpp', { content: 'T' }, {}],
      ['vllm', { prompt: 'T' }, {}],
      ['sglang', { text: 'T' }, { skip_special_tokens: false }],
    ] as const) {
      const said = server({ '/detokenize': answer })
      expect(await tokenizer(kind).textOf(said.ask, asked)).toBe('T')
      expect(said.asked).toEqual([['/detokenize', { model: 'm', tokens: [1, 2], ...more }]])
      expect(await tokenizer(kind).textOf(server({ '/detokenize': { text: 5 } }).ask, asked)).toBeNull()
      expect(await tokenizer(kind).textOf(server({ '/detokenize': ['T'] }).ask, asked)).toBeNull()
    }
  })

  test.each([
    { tokens: [{ id: 1, piece: 'a' }, { id: 2 }] },
    { tokens: [{ id: -1, piece: 'a' }] },
    { tokens: [{ id: 1, piece: [256] }] },
    { tokens: [{ id: 1, piece: [-1] }] },
    { tokens: [{ id: 1, piece: [0.5] }] },
    { tokens: [1, 2] },
    { tokens: 'a' },
    { ids: [1] },
  ])('pieces that are none: %j', async (answer) => {
    const { ask } = server({ '/tokenize': answer })
    const asked = { model: 'm', text: 'x', special: true, strings: true }
    expect(await tokenizer('llama.cpp').ofText(ask, asked)).toBeNull()
  })

  test('bytes of a piece are written as vocabularies write them', async () => {
    const { ask } = server({ '/tokenize': { tokens: [{ id: 1, piece: [0, 10, 255] }] } })
    const asked = { model: 'm', text: 'x', special: true, strings: true }
    expect(await tokenizer('llama.cpp').ofText(ask, asked)).toEqual({ ids: [1], strings: ['<0x00><0x0A><0xFF>'] })
  })

  test.each([[['a']], [['a', 1]], ['ab'], [['a', 'b', 'c']]])('strings that are none: %j', async (token_strs) => {
    const { ask } = server({ '/tokenize': { count: 2, tokens: [1, 2], token_strs } })
    const asked = { model: 'm', text: 'x', special: true, strings: true }
    expect(await tokenizer('vllm').ofText(ask, asked)).toBeNull()
  })
})
