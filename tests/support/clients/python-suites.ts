import type { Suite } from './suites.ts'
import { loopAnswer } from './tool-loop.ts'

export interface PythonSuite extends Suite {
  /** Of `tests/sdk/python`. */
  readonly script: string
  /** Packages that its script needs beside it. */
  readonly beside?: readonly string[]
  /** Suites of one environment share its packages; some want versions that others do not take. */
  readonly environment: 'clients' | 'litellm' | 'agents' | 'frameworks' | 'proxy'
}

const test = 'tests/heavy/python-clients.test.ts'
const whole = 'fake-0 fake-1 fake-2 fake-3 fake-4 '
const look = { fake: true }
/** Two calls of the tool and the answer. */
const loop = [3, loopAnswer]
const clients = { test, environment: 'clients' } as const
const agents = { test, environment: 'agents' } as const
const proxy = { test, environment: 'proxy' } as const
const frameworks = { test, environment: 'frameworks' } as const

export const pythonSuites: readonly PythonSuite[] = [
  {
    ...clients,
    requirement: 'openai==3.54.0',
    script: 'openai_client.py',
    facts: {
      chat: whole,
      chat_stream: whole,
      chat_parsed: 'hello there',
      responses: [whole, 'completed', 5],
      responses_stream: ['response.created', 'response.completed', whole],
      responses_parsed: 'hello there',
      responses_tool: ['look', look],
      responses_after_tool: whole,
      wrong_key: 'invalid_api_key',
      no_model: 'model_not_found',
      cut_stream: 'node_lost',
      cut_responses: ['response.failed', 'server_error'],
    },
  },
  {
    ...clients,
    requirement: 'anthropic==2.12.0',
    script: 'anthropic_client.py',
    facts: {
      whole: [whole, 'end_turn', 5],
      streamed: [whole, 'end_turn'],
      tool: ['tool_use', 'look', look],
      after_tool: whole,
      structured: { echo: 'hello there' },
      count: true,
      models: ['cut', 'm', 'slow'],
      wrong_key: 401,
      no_model: 404,
      cut_stream: true,
    },
  },
  {
    ...clients,
    requirement: 'ollama==0.6.3',
    script: 'ollama_client.py',
    facts: { whole, streamed: whole, generated: whole, models: ['cut', 'm', 'slow'], no_model: 404 },
  },
  {
    ...clients,
    requirement: 'langchain-openai==1.6.7',
    script: 'langchain_client.py',
    facts: {
      chat: whole,
      chat_stream: whole,
      chat_tool: ['look'],
      chat_structured: 'hello there',
      responses: whole,
      responses_stream: whole,
      responses_tool: ['look'],
      responses_structured: 'hello there',
    },
  },
  {
    test,
    environment: 'litellm',
    requirement: 'litellm==1.95.0',
    script: 'litellm_client.py',
    facts: {
      openai: whole,
      openai_stream: whole,
      openai_wrong_key: 401,
      anthropic: whole,
      anthropic_stream: whole,
      anthropic_wrong_key: 401,
    },
  },
  {
    ...clients,
    requirement: 'llm==0.36',
    script: 'llm_client.py',
    facts: { streamed: `${whole}\n`, whole: `${whole}\n` },
  },
  {
    ...agents,
    requirement: 'langchain==1.5.0',
    beside: ['langgraph==1.2.22', 'langchain-openai==1.6.7', 'langchain-anthropic==1.7.10'],
    script: 'langchain_agent_client.py',
    facts: Object.fromEntries(
      ['chat', 'responses', 'messages'].flatMap((dialect) => [
        [`agent_${dialect}`, loop],
        [`agent_${dialect}_stream`, loopAnswer],
        [`graph_${dialect}`, loop],
      ]),
    ),
  },
  {
    ...agents,
    requirement: 'pydantic-ai-slim[openai,anthropic]==2.68.0',
    script: 'pydantic_ai_client.py',
    facts: {
      chat: loop,
      chat_stream: loopAnswer,
      responses: loop,
      responses_stream: loopAnswer,
      messages: loop,
      messages_stream: loopAnswer,
      no_model: 404,
    },
  },
  {
    ...frameworks,
    requirement: 'haystack-ai==3.4.1',
    script: 'haystack_client.py',
    facts: { whole: loop, streamed: loop },
  },
  {
    ...frameworks,
    requirement: 'instructor==1.17.0',
    script: 'instructor_client.py',
    facts: { tools: 1, tools_stream: 1 },
  },
  {
    ...frameworks,
    requirement: 'smolagents[openai]==1.26.0',
    script: 'smolagents_client.py',
    facts: { whole: loop, streamed: loop },
  },
  {
    ...frameworks,
    requirement: 'llama-index-llms-openai-like==0.8.1',
    beside: ['llama-index-core==0.14.25'],
    script: 'llama_index_client.py',
    facts: { whole: loop, streamed: loop },
  },
  {
    ...proxy,
    requirement: 'litellm[proxy]==1.95.0',
    // A later one lacks what its proxy imports.
    beside: ['fastapi==0.136.3'],
    script: 'litellm_proxy_client.py',
    facts: {
      chat: loop,
      chat_stream: loop,
      anthropic: loop,
      anthropic_stream: loop,
      responses: loop,
      messages: loop,
      no_model: [404, true],
    },
  },
  {
    ...proxy,
    requirement: 'dspy==3.4.1',
    script: 'dspy_client.py',
    // Its last turn but one says that it is done, and its last one makes the answer.
    facts: { react: [4, loopAnswer], wrong_key: 'LMAuthError' },
  },
]

/** What a suite's environment has, for `pythonWith`. */
export const packagesOf = (environment: PythonSuite['environment']): readonly string[] =>
  pythonSuites
    .filter((suite) => suite.environment === environment)
    .flatMap(({ requirement, beside = [] }) => [requirement, ...beside])
