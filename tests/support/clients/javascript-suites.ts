import type { Suite } from './suites.ts'

const whole = 'fake-0 fake-1 fake-2 fake-3 fake-4 '

/** Too large to be among the packages of this project. */
export const langchain: Suite & { readonly beside: readonly string[] } = {
  requirement: '@langchain/openai@1.5.8',
  beside: ['@langchain/core@1.4.0', 'zod@4.4.3'],
  test: 'tests/heavy/javascript-clients.test.ts',
  facts: {
    chat: whole,
    chat_stream: whole,
    chat_tool: ['look'],
    chat_structured: 'hello there',
    responses: whole,
    responses_stream: whole,
    responses_tool: ['look'],
    responses_structured: 'hello there',
    wrong_key: 401,
  },
}
