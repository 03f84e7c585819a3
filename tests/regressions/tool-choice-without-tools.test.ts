import { expect, test } from 'bun:test'
import { chatOfMessages } from '../../src/protocol/dialects/messages/request.ts'

/**
 * Found by reading: an empty list of tools was left out and the choice among them was not, which strict servers answer
 * with 400. Fix: what speaks of tools goes on where there are some.
 */
test('§28: what a Messages request says of its tools goes on where it has some', () => {
  const asked = { model: 'm', max_tokens: 1, messages: [{ role: 'user', content: 'hi' } as const] }
  const choice = { type: 'auto', disable_parallel_tool_use: true } as const
  for (const tools of [{ tools: [] }, {}]) {
    expect(Object.keys(chatOfMessages({ ...asked, ...tools, tool_choice: choice }))).toEqual([
      'model',
      'messages',
      'max_tokens',
    ])
  }
  const some = [{ name: 'look', input_schema: { type: 'object' as const } }]
  expect(chatOfMessages({ ...asked, tools: some, tool_choice: choice })).toMatchObject({
    tool_choice: 'auto',
    parallel_tool_calls: false,
  })
})
