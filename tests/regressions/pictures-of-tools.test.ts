import { expect, test } from 'bun:test'
import { chatOfOllama } from '../../src/protocol/dialects/ollama/request.ts'
import { chatOfResponses } from '../../src/protocol/dialects/responses/request.ts'

/**
 * Found by reading: pictures in the result of a tool were left out in silence. Fix: they follow the results as the user's,
 * as those of Messages do. Responses left them in the tool's message, which most templates cannot show.
 */
const image = 'iVBORw0KGgo='
const url = `data:image/png;base64,${image}`
const picture = { type: 'image_url', image_url: { url } }

test('§28: pictures of tools follow all results of a turn, as the user’s', () => {
  const call = (name: string) => ({ function: { name, arguments: {} } })
  const { messages } = chatOfOllama({
    model: 'm',
    messages: [
      { role: 'user', content: 'look' },
      { role: 'assistant', content: '', tool_calls: [call('left'), call('right')] },
      { role: 'tool', tool_name: 'left', content: 'a door', images: [image] },
      { role: 'tool', tool_name: 'right', content: 'a wall', images: [] },
      { role: 'assistant', content: 'I see.' },
      { role: 'tool', content: '', images: [image, image] },
    ],
  })
  expect<readonly object[]>(messages.slice(2)).toEqual([
    { role: 'tool', tool_call_id: 'call_1_0', content: 'a door' },
    { role: 'tool', tool_call_id: 'call_1_1', content: 'a wall' },
    { role: 'user', content: [picture] },
    { role: 'assistant', content: 'I see.' },
    { role: 'tool', tool_call_id: 'call_0', content: '' },
    { role: 'user', content: [picture, picture] },
  ])
})

test('§28: Responses: pictures of tools follow all results of a turn, as the user’s', () => {
  const called = (id: string) => ({ type: 'function_call', call_id: id, name: 'look', arguments: '{}' })
  const seen = (id: string, output: unknown) => ({ type: 'function_call_output', call_id: id, output })
  const call = (id: string) => ({ id, type: 'function', function: { name: 'look', arguments: '{}' } })
  const user = (content: string) => ({ type: 'message', role: 'user', content })
  const { messages } = chatOfResponses({
    model: 'm',
    input: [
      user('look'),
      called('left'),
      called('right'),
      seen('left', [
        { type: 'input_text', text: 'a door' },
        { type: 'input_image', image_url: url, detail: 'low' },
        { type: 'input_text', text: 'a floor' },
      ]),
      seen('right', 'a wall'),
      user('And?'),
      called('up'),
      seen('up', [{ type: 'input_image', image_url: url }]),
    ],
  })
  expect<readonly object[]>(messages.slice(1)).toEqual([
    { role: 'assistant', content: null, tool_calls: [call('left'), call('right')] },
    { role: 'tool', tool_call_id: 'left', content: 'a door\n\na floor' },
    { role: 'tool', tool_call_id: 'right', content: 'a wall' },
    {
      role: 'user',
      content: [
        { ...picture, image_url: { url, detail: 'low' } },
        { type: 'text', text: 'And?' },
      ],
    },
    { role: 'assistant', content: null, tool_calls: [call('up')] },
    { role: 'tool', tool_call_id: 'up', content: '' },
    { role: 'user', content: [picture] },
  ])
})
