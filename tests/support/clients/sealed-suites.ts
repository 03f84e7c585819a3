import type { Suite } from './suites.ts'

const test = 'tests/heavy/sealed-clients.test.ts'
const whole = 'fake-0 fake-1 fake-2 '
const look = ['look', { fake: true }]
const own = { whole, streamed: true, refused: [400, 'invalid_request'], wrong_key: true } as const

/** EHBP's own clients, with a gateway that relays. */
export const goEhbp: Suite = {
  requirement: 'github.com/tinfoilsh/encrypted-http-body-protocol v0.3.1',
  test,
  facts: own,
}
export const pythonEhbp: Suite & { readonly beside: readonly string[] } = {
  requirement: 'tinfoil-ehbp==0.4.1',
  beside: ['openai==3.54.0', 'anthropic==2.12.0', 'ollama==0.6.3'],
  test,
  facts: { ...own, openai: whole, openai_tool_stream: look },
}
/** Unchanged clients through the door of `penstock seal`, in the same environment. */
export const throughDoor: Suite = {
  requirement: 'openai==3.54.0, anthropic==2.12.0, ollama==0.6.3',
  test,
  facts: {
    openai: whole,
    openai_stream: whole,
    openai_tool: look,
    openai_responses_stream: ['response.completed', whole],
    openai_no_model: 'model_not_found',
    anthropic: whole,
    anthropic_stream: whole,
    anthropic_tool_stream: look,
    ollama: whole,
    ollama_stream: whole,
    ollama_tool_stream: look,
    ollama_models: ['m-1', 'm-d', 'm-t'],
  },
}
