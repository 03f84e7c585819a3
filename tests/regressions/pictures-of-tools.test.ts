import { expect, test } from 'bun:test'
import { chatOfOllama } from '../../src/protocol/dialects/ollama/request.ts'

/**
 * Found by reading: pictures in the result of a tool were left out in silence. Fix: they follow the results as the user's,
 * as those of Messages do.
 */
test('§28: pictures of tools follow all results of a turn, as the user’s', () => {
  const call = (name: string) => ({ function: { name, arguments: {} } })
  const image = 'iVBORw0KGgo='
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
  const picture = { type: 'image_url', image_url: { url: `data:image/png;base64,${image}` } }
  expect<readonly object[]>(messages.slice(2)).toEqual([
    { role: 'tool', tool_call_id: 'call_1_0', content: 'a door' },
    { role: 'tool', tool_call_id: 'call_1_1', content: 'a wall' },
    { role: 'user', content: [picture] },
    { role: 'assistant', content: 'I see.' },
    { role: 'tool', tool_call_id: 'call_0', content: '' },
    { role: 'user', content: [picture, picture] },
  ])
})
