import type { Language } from './compiled.ts'
import type { Suite } from './suites.ts'
import { loopAnswer } from './tool-loop.ts'

export interface CompiledSuite extends Suite {
  readonly language: Language
  /** How its program calls it. */
  readonly client: string
}

const test = 'tests/heavy/compiled-clients.test.ts'
const chat = [3, 'stop', loopAnswer]
const responses = [3, 'completed', loopAnswer]
const openai = {
  chat,
  chat_stream: chat,
  responses,
  responses_stream: responses,
  wrong_key: [401, 'invalid_api_key'],
  no_model: [404, 'model_not_found'],
  abort: true,
}
const messages = [3, 'end_turn', loopAnswer]

export const compiledSuites: readonly CompiledSuite[] = [
  {
    language: 'go',
    client: 'openai',
    requirement: 'github.com/openai/openai-go/v3 v3.96.0',
    test,
    facts: openai,
  },
  {
    language: 'go',
    client: 'anthropic',
    requirement: 'github.com/anthropics/anthropic-sdk-go v1.84.0',
    test,
    facts: {
      messages,
      messages_stream: messages,
      wrong_key: [401, 'authentication_error'],
      no_model: [404, 'not_found_error'],
      abort: true,
    },
  },
  {
    language: 'go',
    client: 'ollama',
    requirement: 'github.com/ollama/ollama v0.12.0',
    test,
    facts: { chat, chat_stream: chat, no_model: [404], abort: true },
  },
  {
    language: 'java',
    client: 'openai',
    requirement: 'com.openai:openai-java 4.101.0',
    test,
    facts: {
      ...openai,
      wrong_key: [true, ...openai.wrong_key],
      no_model: [true, ...openai.no_model],
    },
    failures: { chat_stream_helper_without_include_usage: 'IllegalStateException' },
  },
  { language: 'rust', client: 'openai', requirement: 'async-openai 0.43.0', test, facts: openai },
]
