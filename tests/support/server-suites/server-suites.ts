import type { Suite } from '../clients/suites.ts'
import { llamaChat } from './llama-chat.ts'
import { llamaMessages, llamaResponses } from './llama-dialects.ts'
import { llamaCompletions, llamaEmbeddings, llamaRankings } from './llama-texts.ts'
import { ollamaSuite } from './ollama.ts'
import type { SuiteCase } from './suite-case.ts'

export const llamaSuite: readonly SuiteCase[] = [
  ...llamaChat,
  ...llamaCompletions,
  ...llamaMessages,
  ...llamaResponses,
  ...llamaEmbeddings,
  ...llamaRankings,
]

interface ServerSuite extends Suite {
  readonly cases: readonly SuiteCase[]
}

function factsOf(cases: readonly SuiteCase[]): Record<string, unknown> {
  const facts = Object.fromEntries(cases.map(({ purpose, name, expected }) => [`${purpose}: ${name}`, expected]))
  if (Object.keys(facts).length !== cases.length) throw new Error('two cases of one name would count as one')
  return facts
}

const test = 'tests/heavy/server-suites.test.ts'
const suiteOf = (requirement: string, cases: readonly SuiteCase[]): ServerSuite => ({
  requirement,
  test,
  cases,
  facts: factsOf(cases.filter(({ through }) => through === undefined)),
  failures: factsOf(cases.filter(({ through }) => through !== undefined)),
})

/** For the table of docs/compatibility.md: what fails is what the gateway answers otherwise. */
export const serverSuites: readonly ServerSuite[] = [
  suiteOf('ggml-org/llama.cpp tools/server/tests 2026-10', llamaSuite),
  suiteOf('ollama/ollama middleware/openai_test.go 2026-08', ollamaSuite),
]
