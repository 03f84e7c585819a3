import type { Suite } from '../clients/suites.ts'
import { expert, synthesize, vote } from '../pools/mixture-pool.ts'

/** Seven requests of the compliance suite of openresponses/openresponses (`src/lib/compliance-tests.ts`), in words of our own. */
const said = (role: string, content: unknown) => ({ type: 'message', role, content })
const dot =
  'data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='
const weather = {
  type: 'function',
  name: 'get_weather',
  description: 'The weather of a town',
  parameters: { type: 'object', properties: { town: { type: 'string' } }, required: ['town'] },
}
const asksWeather = { input: [said('user', 'How is the weather in Porto?')], tools: [weather] }
export const templates = [
  { id: 'basic-response', body: { input: [said('user', 'Greet me in three words.')] } },
  { id: 'streaming-response', body: { input: [said('user', 'Count to five.')], stream: true } },
  { id: 'system-prompt', body: { input: [said('system', 'You are a sailor.'), said('user', 'Greet me.')] } },
  { id: 'tool-calling', body: asksWeather },
  { id: 'tool-calling-streaming', body: { ...asksWeather, stream: true } },
  {
    id: 'image-input',
    body: {
      input: [
        said('user', [
          { type: 'input_text', text: 'What is this?' },
          { type: 'input_image', image_url: dot },
        ]),
      ],
    },
  },
  {
    id: 'multi-turn',
    body: {
      input: [said('user', 'I am Ana.'), said('assistant', 'Hello, Ana.'), said('user', 'What am I called?')],
    },
  },
] as const

export const ways = [
  ['straight', { model: 'a' }],
  ['through a mixture that votes', { model: 'council', svc: { mixture: vote(expert('a'), expert('b')) } }],
  ['through a mixture that writes anew', { model: 'council', svc: { mixture: synthesize(expert('a'), expert('b')) } }],
] as const

export const openResponses: Suite = {
  requirement: 'openresponses/openresponses 2026-04-24',
  test: 'tests/sdk/open-responses.test.ts',
  facts: Object.fromEntries(ways.flatMap(([way]) => templates.map(({ id }) => [`${id} ${way}`, 'completed']))),
}
