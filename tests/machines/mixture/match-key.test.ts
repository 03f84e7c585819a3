import { describe, expect, test } from 'bun:test'
import { isAnswer } from '../../../src/machines/mixture/strategies/answer.ts'
import { matchKey } from '../../../src/machines/mixture/strategies/match-key.ts'
import { said } from './messages.ts'

const keyOf = (text: string) => matchKey(said(text))
const calls = (...made: readonly (readonly [name: string, args: unknown])[]) => ({
  role: 'assistant',
  content: null,
  tool_calls: made.map(([name, args], at) => ({
    id: `call_${at}`,
    type: 'function',
    function: { name, arguments: args },
  })),
})

describe('§7, match key, step 1: tool calls', () => {
  test('the same call with other ids, spaces and order of keys', () => {
    const one = { ...calls(['f', '{"a":1,"b":[1,2]}']), content: 'I call f' }
    const other = calls(['f', '{ "b": [1, 2], "a": 1.0 }'])
    expect(matchKey(one)).toBe(matchKey(other))
    expect(matchKey(one)).toStartWith('T:')
  })
  test('other arguments, another name, another order', () => {
    const keys = [
      calls(['f', '{"a":1}']),
      calls(['f', '{"a":2}']),
      calls(['g', '{"a":1}']),
      calls(['f', '{"a":1}'], ['g', '{}']),
      calls(['g', '{}'], ['f', '{"a":1}']),
      calls(['f', 'not JSON']),
    ].map(matchKey)
    expect(new Set(keys).size).toBe(keys.length)
  })
  test('arguments that are no JSON count as they are written', () => {
    expect(matchKey(calls(['f', '{"a":']))).toBe(matchKey(calls(['f', '{"a":'])))
    expect(matchKey(calls(['f', { a: 1 }]))).toBe(matchKey(calls(['f', '{"a":1}'])))
  })
})

type Row = readonly [what: string, texts: readonly string[], key: string]
const rows: readonly Row[] = [
  ['2: thoughts are left out', ['Paris', '<think>London?\nNo.</think>\nParis', '<THINK>x</THINK>Paris'], 'S:paris'],
  ['2: a template that opens the block itself', ['London? No.</think>Paris'], 'S:paris'],
  ['3: the last box', ['so \\boxed{1} and thus \\boxed{42}.', '$\\boxed{ 42 }$', '42'], 'N:42'],
  ['3: braces inside the box', ['\\boxed{\\frac{1}{2}}'], 'S:\\frac12'],
  ['3: the last line that says answer', ['Answer: 7\nno, wait\nanswer: 8\n', 'Final Answer : 8', 'answer：8'], 'N:8'],
  ['3: marks around the word', ['**Answer:** 8', '**Final answer: 8**', '### Answer: 8', '> answer: 8'], 'N:8'],
  ['3: the answer under the word', ['Answer:\n\n8'], 'N:8'],
  ['3: the box goes before the line', ['Answer: 1\n\\boxed{2}'], 'N:2'],
  ['3: a word that only holds answer is none', ['The answers: many'], 'S:answers many'],
  [
    '4: JSON by its value',
    ['{"a":1,"b":2}', '{ "b": 2.0,\n "a": 1 }', '```json\n{"a":1,"b":2}\n```'],
    'J:{"a":1,"b":2}',
  ],
  ['4: an array', ['[1, 2]', '[1,2]'], 'J:[1,2]'],
  ['4: a JSON number or text is no JSON answer', ['"Paris"', 'Paris'], 'S:paris'],
  [
    '5: case, width, quotes and dashes',
    ['It’s “north–west”', 'IT\'S "NORTH-WEST"', 'Ｉt′s north−west'],
    'S:its north-west',
  ],
  [
    '5: markdown marks and fences',
    ['**Paris**', '_Paris_', '# Paris', '`Paris`', '- Paris', '```\nParis\n```'],
    'S:paris',
  ],
  ['5: a mark that ends a number', ['**42**', '42', '`42`', '***42***'], 'N:42'],
  ['6: currency, commas and zeros', ['$1,234.50', '1234.5', '€ 1,234.500', '1,234.5 $', '+1234.5'], 'N:1234.5'],
  ['6: a full stop after it', ['42.', '42', '42.00'], 'N:42'],
  ['6: percent stays', ['50%', '50.0 %', '５０％'], 'N:50%'],
  ['6: sign and zero', ['-0.50', '−.5'], 'N:-0.5'],
  ['6: nothing is rounded', ['123456789012345678901234567890.10'], 'N:123456789012345678901234567890.1'],
  ['6: zero has no sign', ['-0', '0.0', '0'], 'N:0'],
  [
    '7: punctuation, articles and spaces',
    ['The  Eiffel Tower!', '(an eiffel tower)', 'Eiffel\ntower.'],
    'S:eiffel tower',
  ],
  ['7: an answer that is an article', ['A', '(a)', 'A.'], 'S:a'],
  ['7: `+ - # % $` stay', ['C++'], 'S:c++'],
]

describe('§7, match key, steps 2 to 7', () => {
  test.each(rows.map(([what, texts, key]) => [what, texts, key] as const))('%s', (_what, texts, key) => {
    expect(texts.map((text) => [text, keyOf(text)])).toEqual(texts.map((text) => [text, key]))
  })

  test('what differs stays apart', () => {
    const texts = ['C', 'C++', 'C#', '5', '-5', '5%', '50', '$x', 'x', '1/2', '12', 'yes', 'no', '[1]', '{"a":1}']
    expect(new Set(texts.map(keyOf)).size).toBe(texts.length)
  })

  test('no answer has no key', () => {
    for (const text of ['', ' \n ', '<think>all of it', '<think>x</think>', '**', '```\n```', '?!']) {
      expect([text, keyOf(text)]).toEqual([text, null])
    }
    expect(matchKey({ role: 'assistant', content: null })).toBeNull()
    expect(matchKey({ role: 'assistant', content: null, tool_calls: [] })).toBeNull()
  })

  test('text in parts, and a refusal, count as text', () => {
    const parts = [{ type: 'text', text: 'Pa' }, { type: 'text', text: 'ris' }, { type: 'image_url' }]
    expect(matchKey({ role: 'assistant', content: parts })).toBe('S:paris')
    expect(matchKey({ role: 'assistant', content: null, refusal: 'I will not.' })).toBe('S:i will not')
  })

  test('JSON that has no canonical form is text', () => {
    expect(keyOf('[1e999]')).toBe('S:1e999')
    expect(keyOf(`${'['.repeat(200_000)}${']'.repeat(200_000)}`)).toBeNull()
  })

  test('a text made to be slow is not', () => {
    const hostile = ['~~a ', '** a', '\n', ' \n>', '#', '0', '1,', '<think>', '`', '```\n', 'answer ', '{']
    // Quadratic, any one of them outlasts the test.
    const keys = hostile.map((piece) => keyOf(`${piece.repeat(100_000)}x`))
    expect(keys.filter((key) => key !== null).length).toBeGreaterThan(hostile.length / 2)
  })
})

test('§7: an answer is text outside thoughts, or a tool call', () => {
  expect([said('x'), said('<think>y</think> x'), calls(['f', '{}'])].map(isAnswer)).toEqual([true, true, true])
  expect([said(''), said(' \n'), said('<think>y'), { role: 'assistant' }].map(isAnswer)).toEqual(Array(4).fill(false))
})
